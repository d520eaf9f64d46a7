"""Counts first, sums after: no sum over few cells of a column or few rows of a class.

    round 1   silos ── observed cells of each column, or rows of each class ──> counts
    round 2   silos <── counts ── each judges them, then sends the sums ──────> sums

A step declares what its arrays count, and which of its arguments are counts that were
opened. A silo judges both once a step has run, before anything is encoded: its own
counts are 0 or at least `min_own_cells`, and those over all silos are 0 or at least
`min_rows`, or `min_rows_per_class`. Where nothing was counted there is nobody to
protect.

A silo cannot know by itself whether the counts that it receives were those opened, only
that they are no smaller than its own: the rest follows where every silo runs the
study's own program.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import numpy as np

from unpooled.arrays import Array
from unpooled.party.rules.policy import Policy
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.step import Step


@final
class CountsFirst:
    """Counts of a silo in one fit, by which it judges sums over the rows counted.

    Parameters
    ----------
    policy : Policy
        The silo's rules.
    partition : {"rows", "columns"}
        On a column partition no other silo adds to the silo's counts.
    """

    def __init__(self, policy: Policy, partition: str) -> None:
        self._policy, self._alone = policy, partition == "columns"
        # The silo's own counts of the last step that counted, by view and by what they
        # count; a step may have several.
        self._own: dict[tuple[str, str], dict[str, Array]] = {}

    def check_classes(
        self, step: Step, sizes: Callable[[], Sequence[tuple[int, int]]]
    ) -> None:
        """Refuse a step by class where one of the silo's own classes is too small.

        All of its classes, whatever a request names: a refusal does not tell which.

        Parameters
        ----------
        step : Step
            The step that is to run.
        sizes : callable
            Returns the rows of each of the silo's classes, in each part of the table
            by which selections differ, and in the whole table.
        """
        declared = [*step.declared.values(), *step.takes.values()]
        if "y" not in step.reads or not any("c" in d.axes.split() for d in declared):
            return
        own = sizes()
        # A step that neither counts nor takes counts has the silo's own to rely on, and
        # so has the difference of two selections, which nobody counts beforehand.
        judged = any(one.counts in ("classes", "names") for one in declared)
        every = self._alone or not judged
        self._policy.check_classes(n for n, whole in own if every or n < whole)
        self._policy.check_own_cells(n for n, _ in own)

    def check(
        self,
        step: Step,
        view: str,
        public: Mapping[str, Any],
        totals: Mapping[str, Any],
    ) -> None:
        """Refuse the arrays of a step where few people are behind an entry.

        Parameters
        ----------
        step : Step
            The step that ran.
        view : str
            Digest of the view that it read.
        public : mapping
            Its arguments.
        totals : mapping of str to array
            What it returned.

        Raises
        ------
        Refusal
            "min_own_cells", "min_rows" or "min_rows_per_class". "out_of_order" where
            the silo has counted nothing before, "public_bound" where it is sent fewer
            than it has itself.
        """
        # No other silo adds to arrays that a silo discloses, or has alone.
        alone = self._alone or step.verb not in ("summed", "compared", "computed")
        counted: dict[str, dict[str, Array]] = {}
        for name, declared in step.declared.items():
            if declared.counts in ("cells", "classes"):
                if name not in totals:
                    raise Refusal("declaration")
                own = np.asarray(totals[name], dtype=float)
                self._policy.check_own_cells(own.ravel().tolist())
                if alone:
                    self._judge(declared.counts, own)
                counted.setdefault(declared.counts, {})[name] = own
        for what, own_of in counted.items():
            self._own[view, what] = own_of
        for name, taken in step.takes.items():
            if taken.counts:
                if not (known := self._own.get((view, taken.counts))):
                    raise Refusal("out_of_order")
                # Sums may take a single count under another name.
                own = known.get(name, next(iter(known.values())))
                opened = np.asarray(public[name])
                if opened.shape != own.shape:
                    raise Refusal("arguments")
                if (opened < own).any():
                    # Depends on rows, and counts among the refusals that do.
                    raise Refusal("public_bound")
                self._judge(taken.counts, opened)

    def separates(
        self,
        step: Step,
        public: Mapping[str, Any],
        totals: Mapping[str, Any],
        n_rows: int,
    ) -> list[float]:
        """Return the sizes, over all silos, of classes that a step separates.

        With equal weights, and all rows in one of the classes, it separates none. Sums
        with other weights, or of some classes, combine to those of each class.

        Parameters
        ----------
        n_rows : int
            Rows of the view.
        """
        named = [name for name, taken in step.takes.items() if taken.weighs]
        if not named:
            return []
        weights = np.asarray(public[named[0]])
        (sizes,) = (n for n, taken in step.takes.items() if taken.counts == "classes")
        (own,) = (n for n, d in step.declared.items() if d.counts == "classes")
        if (weights == weights[0]).all() and np.sum(totals[own]) == n_rows:
            return []
        return np.asarray(public[sizes])[weights != 0.0].tolist()

    @staticmethod
    def class_sizes(step: Step, public: Mapping[str, Any]) -> list[float]:
        """Return the sizes, over all silos, of the classes that a step has sums of."""
        found = [
            np.ravel(public[name])
            for name, taken in step.takes.items()
            if taken.counts == "classes"
        ]
        return [n for sizes in found for n in sizes.tolist() if n > 0]

    def _judge(self, what: str, counts: Array) -> None:
        if what == "classes":
            self._policy.check_classes(counts.ravel().tolist())
        else:
            self._policy.check_cells(counts.ravel().tolist())
