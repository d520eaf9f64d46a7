"""What the signed rounds of a fit prove: their totals, and a transform's arguments."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from unpooled.arrays import Array
from unpooled.protocol.answered import Answered
from unpooled.protocol.evidence import Evidence
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.request import release_context
from unpooled.protocol.step import Fit, Step, find_step
from unpooled.protocol.wire_format import WireFormat
from unpooled.secure.sums.masking import MaskedSum
from unpooled.secure.sums.plain import PlainSum


def after(
    fits: Mapping[str, Fit], shown: Evidence, totals: Mapping[str, Array]
) -> dict[str, Fit]:
    """Return a round's fit, with the rounds of the same step before it."""
    before = fits.get(shown.step)
    earlier = () if before is None else (*before.earlier, replace(before, earlier=()))
    fit = Fit(dict(shown.public), totals, earlier, shown.further)
    return {shown.step: fit}


def follows(step: Step, fits: Mapping[str, Fit], public: Mapping[str, Any]) -> bool:
    """Whether a transform's arguments are those that the fits give."""
    if step.follows is None:
        return True
    try:
        with np.errstate(all="ignore"):
            named = {name.rpartition(".")[2]: fit for name, fit in fits.items()}
            return bool(step.follows(named, public))
    except (KeyError, ValueError, IndexError, TypeError):
        # A fit that lacks a round, or whose arrays do not belong together.
        return False


def opened(shown: Evidence, asked: Answered) -> dict[str, Array]:
    """Add the parties' words and return the totals, as the coordinator opened them."""
    step = find_step(shown.step)
    sizes = step.sizes(asked.n_features, shown.public)
    if step.polynomial is not None:
        return _same_signs(step, sizes, shown)
    masked = asked.protection == "masked"
    totals = {}
    for name, declared in step.leaves.items():
        form, words = WireFormat.of(declared, sizes, shown.public), shown.words[name]
        code = form.code(len(asked.parties), release_context(asked, name))
        if (words.shape[1:], words.dtype) != form.words(code if masked else None):
            raise Refusal("transform_not_fitted")
        flat = (MaskedSum() if masked else PlainSum()).reveal(list(words), code)
        totals[name] = form.restored(flat)
    return totals


def _same_signs(
    step: Step, sizes: Mapping[str, int], shown: Evidence
) -> dict[str, Array]:
    """Return signs on which all agree that computed them."""
    found = {}
    for name, declared in step.leaves.items():
        words = shown.words[name]
        if words.shape[1:] != declared.shape(sizes) or words.dtype != np.uint8:
            raise Refusal("transform_not_fitted")
        if not len(words) or (words != words[0]).any():
            raise Refusal("transform_not_fitted")
        found[name] = words[0].astype(bool)
    return found
