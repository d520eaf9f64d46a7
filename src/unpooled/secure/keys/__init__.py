"""Identities of the parties, and the keys that each pair of them agrees on.

Read `roster` (long-term Ed25519 keys, pinned by every silo), then `agreement` (fresh
X25519 keys for each session, signed by these identities).
"""
