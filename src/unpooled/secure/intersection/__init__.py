"""The ids common to all parties, without disclosing any other id.

Read `protocol` (the two stages and what each party learns), then `curve25519` (ids as
points of the curve). Capital letters are points, small letters scalars.
"""
