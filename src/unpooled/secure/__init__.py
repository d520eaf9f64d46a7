"""Cryptographic protocols: secure sums, keys, comparisons, intersection, noise.

Read in this order. Each file begins with its protocol and the attack that it answers:

    sums/secure_sum.py          what a secure sum promises
    sums/masking.py             a coordinator that follows the protocol, but would read
                                a party's value
    sums/fixed_point.py         wrap-around, rounding and overflow in the ring
    sums/low_precision_code.py        a mask that is used twice, and rounding bias
    sums/plain.py               none: values in clear, for a trusted coordinator
    keys/roster.py              a relay that swaps keys; a party that is not invited
    keys/agreement.py           a relay that replays the key of another fit or roster
    comparison/polynomial.py    a sign that rounding or overflow would falsify
    comparison/protocol.py      a minority of parties that would learn the totals
    comparison/integer_masks.py a coordinator that asks parties for different things; a
                                majority that would learn another party's values
    comparison/secret_sharing.py all computing parties but one, which would learn the
                                values of a party that does not compute
    comparison/mpyc_process.py  a peer whose bytes would run as code (pickle)
    comparison/certificate.py   a key file that a killed process leaves behind
    comparison/relayed_streams.py a relay that reads, alters, repeats or reorders
    intersection/ristretto255.py ids that their points would betray
    intersection/protocol.py    parties that would learn ids outside the intersection
    noise.py                    a total that betrays one row (differential privacy)

Nothing here protects against a party that lies about its own values, nor one party
against the coordinator and all other parties together.

Letters: m parties, i and j two of them; d numbers; k_ij the key of a pair, r_ij its
mask; p the field's prime; σ and ρ, ε, δ noise and its cost in differential privacy.
A *word* is an element of the ring Z_2^b, a *context* the bytes that name one release.
"""
