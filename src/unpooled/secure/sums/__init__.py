"""Sums over the parties of which only the total is opened.

Read `secure_sum` (the interface), `masking` (the scheme), then `fixed_point` and
`low_precision_code` (numbers as ring elements). `plain` adds values in clear.
"""
