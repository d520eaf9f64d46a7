"""The coordinator: sends requests, checks replies, opens totals, relays bytes."""
