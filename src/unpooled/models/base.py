"""What all estimators share: fitting happens on a federation, in one session."""

import abc
import warnings
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.protocol.step import Step, home_of


class FederatedEstimator(BaseEstimator, abc.ABC):
    """An estimator whose `fit` takes a federation where scikit-learn's takes X.

    Subclasses write `_fit`; `fit` holds one session around it, so that all rounds of a
    fit are under keys made for it.

    Attributes
    ----------
    n_features_in_ : int
        Columns seen in `fit`.
    feature_names_in_ : (p,) array of str
        Their names; only where the silos' tables have names.
    kept_ : str
        On a column partition: under which study and view the silos keep their part of
        the model. Attributes about single columns are theirs then. The first time that
        one is asked for, the silos are asked to disclose them, which each must allow.
    """

    _partitions = ("rows",)
    # Whether cells of rows may be missing.
    _missing = False
    # Parameters whose choices give the same answer at other costs, for plans.
    _ways: Mapping[str, tuple[str, ...]] = {}
    # Attributes that the silos of a column partition keep until they are asked for.
    _kept_by_silos: tuple[str, ...] = ()
    _silos: Federation | None = None
    # What silos are asked for under the model's name, beside the steps of its own file:
    # steps, or modules for all steps that they declare.
    _steps: tuple[Step | ModuleType, ...] = ()

    def fit(self, X: Any, y: Any = None) -> Any:
        """Fit on a federation.

        What an earlier fit found is forgotten first. A fit that fails, for whatever
        reason, leaves a model that was never fitted: silos may by then have replaced
        what they kept for the earlier one.

        Parameters
        ----------
        X : Federation
            Made by `unpooled.simulate` or a study, or a view of one.
        y : optional
            Column names for supervised models; others ignore it.

        Returns
        -------
        self
        """
        import numpy as np

        self._forget()
        federation = check_federation(self, X)
        if federation.partition not in self._partitions:
            raise DataError(
                f"{type(self).__name__} works on partitions by "
                f"{' and '.join(self._partitions)}, not by {federation.partition}."
            )
        try:
            with federation.fitting():
                self._fit(federation, y)
            inputs = self._inputs(federation, y)
        except BaseException:
            self._forget()
            raise
        if federation.partition == "columns":
            # What the silos keep of the model lives as long as their federation.
            self.kept_, self._silos = federation.kept_here, federation
        self.n_features_in_ = inputs.n_features
        if inputs.named:
            self.feature_names_in_ = np.array(inputs.feature_names, dtype=object)
        return self

    def _forget(self) -> None:
        """Drop everything that a fit found; parameters stay, and where it stopped."""
        for name in (*fitted_names(self), "_silos"):
            self.__dict__.pop(name, None)

    def continuing(
        self, reached: Mapping[str, Any] | None, keep: Callable[[dict[str, Any]], None]
    ) -> "FederatedEstimator":
        """Let the next fit go on from what a fit that was stopped had reached.

        Most fits are short and begin anew; those with a search override this.

        Parameters
        ----------
        reached : mapping or None
            What `keep` was last given by the fit that was stopped.
        keep : callable
            Takes JSON values after every part of the fit that need not be repeated.
        """
        return self

    def _inputs(self, federation: Federation, y: Any) -> Federation:
        """Return the view of the columns that `transform` takes."""
        return federation

    @abc.abstractmethod
    def _fit(self, federation: Federation, y: Any) -> None:
        """Estimate everything that ends in ``_``, by the verbs of the federation."""

    def _gather(self, federation: Federation) -> None:
        """Ask the silos to disclose `_kept_by_silos`, and set these attributes."""
        raise NotImplementedError

    def __getattr__(self, name: str) -> Any:
        """Ask for what only the silos have; called for attributes that are absent."""
        if name not in type(self)._kept_by_silos or "kept_" not in vars(self):
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        if self._silos is None:
            raise DataError(
                f"{name} is kept in the silos, and this {type(self).__name__} was "
                f"read from a file. Ask for {name} before saving, where the silos "
                f"allow it."
            )
        self._gather(self._silos)
        return vars(self)[name]

    def __getstate__(self) -> dict[str, Any]:
        """Return what is copied or stored: everything but the silos."""
        state = dict(super().__getstate__())
        state.pop("_silos", None)
        return state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._missing
        return tags

    def _check_rows(self, X: Any) -> Float[Array, "n p"]:
        """Check an array of new rows as scikit-learn does, against what was fitted."""
        check_is_fitted(self)
        with warnings.catch_warnings():
            # Fitted on a federation, every step of a pipeline knows the columns' names;
            # applied to a frame, all but the first are handed plain arrays.
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            return validate_data(
                self,
                X,
                reset=False,
                dtype="float64",
                ensure_all_finite="allow-nan" if self._missing else True,
            )

    def _check_transformed(self, X: Any, width: int) -> Float[Array, "n q"]:
        """Check an array of rows as `transform` gives them, `width` columns."""
        check_is_fitted(self)
        finite = "allow-nan" if self._missing else True
        X = check_array(X, dtype="float64", ensure_all_finite=finite)
        if X.shape[1] != width:
            # Broadcasting would take a single column for all of them.
            raise DataError(
                f"X has {X.shape[1]} features, but {type(self).__name__} gives "
                f"{width}; pass rows as transform returns them."
            )
        return X

    def _check_view(self, federation: Federation) -> Federation:
        """Check that a federation has the fitted columns, in any order."""
        check_is_fitted(self)
        federation = check_federation(self, federation)
        own = getattr(self, "_sklearn_output_config", {})
        output = own.get("transform", get_config()["transform_output"])
        if output != "default":
            raise DataError(
                f'set_output(transform="{output}") makes data frames of arrays; a '
                f"federation stays in its silos. Unset it, or transform an array."
            )
        names = getattr(self, "feature_names_in_", None)
        if names is None or not federation.named:
            if federation.n_features != self.n_features_in_:
                raise DataError(
                    f"X has {federation.n_features} features, but "
                    f"{type(self).__name__} is expecting {self.n_features_in_} "
                    f"features as input."
                )
            return federation
        if tuple(names) == federation.feature_names:
            return federation
        return federation.select(list(names))

    def _taught(self, twin: Any) -> Any:
        """Give a twin of another library copies of everything that ends in ``_``."""
        for name in fitted_names(self):
            value = getattr(self, name)
            setattr(twin, name, value.copy() if isinstance(value, Array) else value)
        return twin


def fitted_names(model: Any) -> list[str]:
    """Return the names of what a fit found: as scikit-learn has it, those in ``_``."""
    return [name for name in vars(model) if name.endswith("_") and name[0] != "_"]


def check_federation(estimator: Any, X: Any) -> Federation:
    """Return X if it is a federation, else say what to do."""
    if isinstance(X, Federation):
        return X.asked_by(home_of(type(estimator).__module__))
    raise DataError(
        f"{type(estimator).__name__}.fit takes a Federation, not {type(X).__name__}. "
        f"Make one with unpooled.simulate({{name: data, ...}}), or use scikit-learn "
        f"for data in one place."
    )
