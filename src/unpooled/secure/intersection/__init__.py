"""The ids common to all parties, without disclosing any other id.

Read `protocol` (the two stages and what each party learns), then `ristretto255` (ids
as points of a group). Capital letters are points, small letters scalars.
"""
