"""A party's part in secure comparisons, as its door sees it.

offer ── port and a certificate, sealed for each peer ──> coordinator ──> begin
test  ── the parties' processes prove that their signs are exact
step  ── this party's integers go into its process, once the round is written down
signs ── what the processes found, the same at every party
"""

from collections.abc import Mapping
from typing import Any, final

import numpy as np

from unpooled.arrays import Array
from unpooled.party.packing import declared_array
from unpooled.party.policy import Refusal
from unpooled.party.step import Step
from unpooled.secure.agreement import open_sealed, seal_for
from unpooled.secure.comparison import FEWEST, Computation, Polynomial
from unpooled.secure.message import Message

STAGES = ("offer computing", "begin computing", "test computing", "signs")


@final
class Computing:
    """One party's process in one session, and what waits to go into it.

    Parameters
    ----------
    party : str
        This party's name.
    parties : tuple of str
        All that compute, in the order of their numbers.
    keys : mapping of str to bytes
        Shared with each of the others.
    """

    def __init__(
        self, party: str, parties: tuple[str, ...], keys: Mapping[str, bytes]
    ) -> None:
        if len(parties) < FEWEST:
            raise Refusal("two_parties")
        self._party, self._parties, self._keys = party, parties, keys
        self._computation = Computation(parties.index(party), len(parties))
        self._waiting: list[tuple[Polynomial, list[list[int]]]] = []

    def answer(self, message: Message) -> tuple[dict[str, Any], dict[str, Array]]:
        """Answer one message of the four stages."""
        kind, header = message.header["kind"], message.header
        if kind == "offer computing":
            sealed = {
                peer: seal_for(key, self._computation.certificate, self._about(peer))
                for peer, key in self._keys.items()
            }
            texts = {peer: words.hex() for peer, words in sealed.items()}
            return {
                "kind": "computing", "port": self._computation.port, "sealed": texts
            }, {}  # fmt: skip
        if kind == "begin computing":
            self._begin(header["ports"], header["sealed"])
            return {"kind": "begun"}, {}
        if kind == "test computing":
            self._computation.tested()
            return {"kind": "tested"}, {}
        negative, spent = self._computation.signs()
        return {"kind": "compared", "spent": spent}, {
            "negative": negative.astype(np.uint8)
        }

    def take(
        self, step: Step, sizes: Mapping[str, int], totals: Mapping[str, Array]
    ) -> None:
        """Keep this party's integers until the round is written down."""
        polynomial, (declared,) = step.polynomial, step.declared.values()
        if polynomial is None or set(totals) != set(polynomial.names):
            raise Refusal("declaration")
        shape = declared.shape(sizes)
        checked = {
            name: declared_array(totals, name, declared, shape) for name in totals
        }
        self._waiting.append((polynomial, polynomial.integers(checked)))

    def proceed(self) -> None:
        """Hand over what waited."""
        while self._waiting:
            self._computation.ask(*self._waiting.pop(0))

    def close(self) -> None:
        """End the process."""
        self._computation.close()

    def _begin(self, ports: Mapping[str, int], sealed: Mapping[str, Any]) -> None:
        certificates, addresses = [], []
        for peer in self._parties:
            addresses.append(("127.0.0.1", int(ports[peer])))
            if peer == self._party:
                certificates.append(self._computation.certificate)
                continue
            words = bytes.fromhex(sealed[peer][self._party])
            about = _about(peer, self._party)
            certificates.append(open_sealed(self._keys[peer], words, about))
        self._computation.begin(addresses, certificates)

    def _about(self, peer: str) -> bytes:
        return _about(self._party, peer)


def _about(sender: str, receiver: str) -> bytes:
    return "\0".join(("certificate", sender, receiver)).encode()
