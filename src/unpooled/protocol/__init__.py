"""The protocol of a round, which both ends share: steps, requests and messages."""
