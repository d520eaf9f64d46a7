"""What both ends of a round say: declared steps, requests and messages."""
