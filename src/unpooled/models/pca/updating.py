"""Bringing a fitted PCA up to date; part of `PCA`."""

import copy
from typing import Any

from unpooled.federation.federation import Federation
from unpooled.models.pca.solvers import checked
from unpooled.models.pca.update import check_updatable, updated


class UpdatingPCA:
    """What `PCA` does after rows were appended or silos joined or left."""

    def update(self: Any, federation: Federation) -> Any:
        """Bring the model up to date with the present rows of the present silos.

        Parameters
        ----------
        federation : Federation
            The rows as they are now: some appended or replaced, silos joined or left.

        Returns
        -------
        self
            As `fit` on the same federation would make it, to 1e-10. Where an update
            fails the model stays as it was.

        Raises
        ------
        ReleaseRefusedError
            Under `allow_roster_change` or `min_changed_rows`.
        DataError
            After a fit with `privacy`, `bits`, `rank` or by block Krylov.

        Notes
        -----
        Released, as totals only: N, the p column sums and the p × p scatter about the
        first fit's mean; next to earlier totals, those of the rows that changed.
        """
        view = self._check_view(federation)
        check_updatable(self, view)
        wanted = checked(self, view)
        origin = getattr(self, "origin_", self.mean_)
        with view.fitting():
            found = updated(view, origin, wanted)
        if found is None:
            # Of a fit that fails nothing is left, but an update leaves the model whole.
            fitted = copy.copy(self).fit(view)
            self._forget()
            vars(self).update(vars(fitted))
            return self
        self._take(found)
        self.origin_ = origin
        return self
