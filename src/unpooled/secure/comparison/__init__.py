"""Signs of polynomials of totals, and eigenpairs, by secure multiparty computation.

Read `joint_computation` (what a step declares), `polynomial` (what is compared, in
integers) with `blinded_signs`, `shared_eigenpairs` with `matrix_powers` and
`shared_fixed_point`, `protocol` (the parties' processes), `integer_masks` and
`secret_sharing` (what protects the inputs), `mpyc_process` (the program of a process),
`certificate` and `relayed_streams` (its connections).

Letters: x is an integer of a party and x_1, ..., x_c are its shares for c computing
parties; r_ij is the mask of parties i and j; F is the polynomial of the totals.
"""
