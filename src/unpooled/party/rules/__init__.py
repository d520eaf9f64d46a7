"""The rules of a silo: its policy, and the rules about earlier answers."""
