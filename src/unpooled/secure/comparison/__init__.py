"""Signs of polynomials of totals, by secure multiparty computation.

Read `polynomial` (what is compared, in integers), `protocol` (the parties' processes),
`integer_masks` and `secret_sharing` (what protects the inputs), `mpyc_process` (the
program of a process), `certificate` and `relayed_streams` (its connections).

Letters: x is an integer of a party and x_1, ..., x_c are its shares for c computing
parties; r_ij is the mask of parties i and j; F is the polynomial of the totals.
"""
