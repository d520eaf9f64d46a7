"""Which transforms a silo applies: those that its study fitted, in their order.

A column that a coordinator made up turns a covariance into somebody's record (Huth et
al., Bioinformatics 2023). So a transform comes with evidence of its fit, which each
party checks by itself. What one row carries is judged by `max_leverage`.
"""

import json
from collections.abc import Sequence
from typing import final

import numpy as np

from unpooled.errors import UnpooledError
from unpooled.party.memory.study_memory import StudyMemory
from unpooled.party.rules.policy import Policy
from unpooled.party.views.view import View
from unpooled.protocol.answered import Answered
from unpooled.protocol.evidence import SIGNS, Evidence, features_digest, public_record
from unpooled.protocol.evidence_check import after, follows, opened
from unpooled.protocol.message import digest, signed_by
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.request import Request
from unpooled.protocol.step import Fit, Step, find_step
from unpooled.protocol.view_operations import Derive, Operation, Rows, Select
from unpooled.secure.keys.roster import Roster


@final
class Transforms:
    """What a party holds of the transforms of one fit's views.

    Parameters
    ----------
    policy : Policy
        The silo's rules.
    study : StudyMemory
        The steps that ran in the study, and the rounds that were answered.
    committee : tuple of str
        Who compares in secret, and signs what was found.
    """

    def __init__(
        self, policy: Policy, study: StudyMemory, committee: tuple[str, ...] = ()
    ) -> None:
        self._policy, self._study, self._committee = policy, study, committee
        self._accepted: set[str] = set()

    def check(self, request: Request, view: View) -> None:
        """Refuse a view with a transform that the study did not fit."""
        before: tuple[str, ...] = ()
        for position, operation in enumerate(request.operations):
            if not isinstance(operation, Derive):
                continue
            transform = find_step(operation.step)
            if transform.verb != "derived":
                raise Refusal("transform_not_fitted")
            if not self._policy.trusts_transform(transform.name):
                self._check_fitted(request, position, transform, before)
                if not (transform.fitted_by or transform.by_column):
                    # Whoever asks chooses such columns, and as many as he likes.
                    self._policy.check_made(len(operation.columns), view.n_rows)
            before += (transform.name,)

    def _check_fitted(
        self, request: Request, position: int, step: Step, before: tuple[str, ...]
    ) -> None:
        # What reads arrays that the silo kept cannot be made up by whoever asks.
        if not step.fitted_by or "kept" in step.reads:
            return
        if step.follows is None:
            if not any(
                (name, before) in self._study.logged.fitted for name in step.fitted_by
            ):
                raise Refusal("transform_not_fitted")
            return
        chain = features_digest(request.operations[: position + 1])
        if chain in self._accepted:
            return
        operation = request.operations[position]
        assert isinstance(operation, Derive)
        shown = [one for one in request.evidence if one.transform == position]
        fits = self._fits(shown, step, request.operations[:position])
        if not fits or not follows(step, fits, operation.public):
            raise Refusal("transform_not_fitted")
        self._accepted.add(chain)

    def _fits(
        self, shown: Sequence[Evidence], step: Step, before: Sequence[Operation]
    ) -> dict[str, Fit]:
        """Open the totals of the rounds shown, which must be of one fit on one view."""
        fits: dict[str, Fit] = {}
        fit_and_rows: set[tuple[str, str]] = set()
        for one in shown:
            asked = self._answered(one)
            good = asked.step == one.step and one.step in step.fitted_by
            good = good and (step.further or not one.further)
            good = good and _begins_with_own(one.further, before)
            good = good and asked.features == features_digest([*before, *one.further])
            if not good:
                raise Refusal("transform_not_fitted")
            if public_record(one.public) != dict(asked.public):
                raise Refusal("transform_not_fitted")
            try:
                totals = opened(one, asked)
            except UnpooledError as wrong:
                raise Refusal("transform_not_fitted") from wrong
            fits = {**fits, **after(fits, one, totals)}
            fit_and_rows.add((asked.session, asked.rows))
        if len(fit_and_rows) > 1:
            raise Refusal("transform_not_fitted")
        return fits

    def _answered(self, shown: Evidence) -> Answered:
        """Return the round that all parties signed replies of, and this one answered.

        Raises
        ------
        Refusal
            Unless everybody's reply is there, signed, and to the same request.
        """
        signs = find_step(shown.step).polynomial is not None
        requests = {_request(front, signs) for front, _ in shown.signed.values()}
        asked = (
            self._study.logged.answered.get(requests.pop())
            if len(requests) == 1
            else None
        )
        signers = tuple(sorted(shown.signed))
        if asked is None or signers != (self._committee if signs else asked.parties):
            raise Refusal("transform_not_fitted")
        roster = Roster({p: bytes.fromhex(key) for p, key in asked.keys.items()})
        for place, party in enumerate(signers):
            if not _is_reply(shown, place, party, roster):
                raise Refusal("transform_not_fitted")
        return asked


def _begins_with_own(further: Sequence[Operation], before: Sequence[Operation]) -> bool:
    """Whether more columns, if there are, stand behind those that a transform reads."""
    if not further or not isinstance(further[0], Select):
        return True
    own = [o.columns for o in before if not isinstance(o, Rows)]
    return bool(own) and further[0].columns[: len(own[-1])] == own[-1]


def _request(front: bytes, signs: bool) -> str:
    """Return the digest of the request that a reply says it answers, unchecked.

    Signs are asked for once they are found: they say what they were of.
    """
    try:
        return str(json.loads(front)["header"]["about" if signs else "request"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""


def _is_reply(shown: Evidence, place: int, party: str, roster: Roster) -> bool:
    """Whether a party signed a reply with these words, which stand at its place."""
    try:
        header, digests = signed_by(roster, party, *shown.signed[party])
    except UnpooledError:
        return False
    parts = {name: words[place : place + 1] for name, words in shown.words.items()}
    kind = "released"
    step = find_step(shown.step)
    if step.polynomial is not None:
        if set(parts) != set(step.leaves):
            return False
        kind, parts = "compared", dict.fromkeys([SIGNS], *parts.values())
    return (
        (header.get("kind"), header.get("party")) == (kind, party)
        and all(len(words) == len(shown.signed) for words in shown.words.values())
        and digests
        == {n: digest(np.ascontiguousarray(w).data) for n, w in parts.items()}
    )
