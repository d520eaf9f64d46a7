"""The base class of all estimators: `fit` takes a federation, in one session."""

import abc
import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from unpooled.arrays import Array, Float, Shaped
from unpooled.coordinator.step_call import Needs
from unpooled.data.columns import listing
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.settled import by_closeness, settled
from unpooled.models.metrics.metrics_by_name import METRICS
from unpooled.protocol.step import Step, home_of
from unpooled.protocol.view_operations import Rows
from unpooled.results.citations import Citation, plain_citation
from unpooled.results.exhibits import Exhibit
from unpooled.results.fitted_attributes import fitted_attributes, kept_in_silos
from unpooled.results.subjects import title_of
from unpooled.results.summary import Summary

# What an estimator for rows says of columns: a test has the list from `_partitions`.
_ON_COLUMNS = (
    " Where silos have other columns of the same people, each can do for its own "
    "columns, before the study, what concerns one at a time. Columns of several silos "
    "are taken together by CCA, Correlation, FAMD, KernelPCA, LinearRegression, MCA, "
    "MMVFL, PCA, PLSCanonical, PLSRegression, PLSSVD, Ridge, VFedAKPCA and VFedPCA."
)


# Attributes of a fit that records of a model do not have.
_OF_A_FIT = ("_silos", "_asks_silos", "_disclosed")


class FederatedEstimator(BaseEstimator, abc.ABC):
    """An estimator whose `fit` takes a federation where scikit-learn's takes X.

    Subclasses define `_fit`; `fit` runs it in one session, so that all rounds of a fit
    use keys made for it.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns of the fitted federation.
    feature_names_in_ : (p,) array of str
        Names of the columns; only where the silos' tables have names.
    kept_ : str
        On a column partition: the study and view under which the silos keep their part
        of the model. Attributes about single columns stay there. Reading one for the
        first time asks the silos to disclose them, which every silo must allow.
    """

    # Whether it is fitted for itself; if not, studies do not name it as a step.
    is_model = True
    # Whether a study fits it on all rows before folds, since silos refuse it on some.
    on_all_rows = False
    _partitions = ("rows",)
    # Whether cells of rows may be missing.
    _missing = False
    # Partitions on which a constant column makes a fit fail, if it does on any, and
    # whether a column that is predicted may be constant.
    _varying_on: tuple[str, ...] = ("rows",)
    _constant_response = False
    # Whether columns of categories may be among those it reads.
    _reads_categories = False
    # Partitions on which `transform` of a federation gives a view of it. Elsewhere it
    # gives scores, which leave the silos or stay there.
    _gives_views: tuple[str, ...] = ("rows",)
    # Parameters whose choices give the same result at different costs, for plans.
    _ways: Mapping[str, tuple[str, ...]] = {}
    # Attributes that the silos of a column partition keep until one is read.
    _kept_by_silos: tuple[str, ...] = ()
    _silos: Federation | None = None
    # Asks the silos for them where another model fitted this one as a part of its own:
    # silos that follow know the part as that model's alone.
    _asks_silos: Callable[[], None] | None = None
    # Kept attributes that the silos have disclosed.
    _disclosed: tuple[str, ...] = ()
    # The model's purpose, as the title of a report; else the first line of its module.
    _subject: str = ""
    # Names of the scores by which a study judges it on new rows.
    _scored_by: tuple[str, ...] = ()
    # Names of those that it has on folds of a column partition, where only the silos
    # may know what is predicted for a person.
    _scored_by_columns: tuple[str, ...] = ()
    # Fitted attributes whose last digits differ between machines, because BLAS computes
    # them behind the last decomposition.
    _computed: tuple[str, ...] = ()
    # Fitted attributes that estimate something of the population, for a jackknife; of
    # directions, whose signs are a convention, the axis that counts them.
    _estimates: ClassVar[Mapping[str, int | None]] = {}
    # Steps of other files that this model runs under its own name, such as
    # "pca.local_total"; a module stands for all steps that it declares.
    _steps: tuple[Step | ModuleType, ...] = ()

    def fit(self, X: Any, y: Any = None) -> Any:
        """Fit on a federation.

        The results of an earlier fit are dropped first. A fit that fails, for whatever
        reason, leaves an unfitted model: silos may by then have replaced what they kept
        for the earlier fit.

        Parameters
        ----------
        X : Federation
            Made by `unpooled.simulate` or a study, or a view of one.
        y : str or list of str, optional
            Column names for supervised models; others ignore it. None: the label that
            was named when the federation was made, where a model needs one.

        Returns
        -------
        self
        """
        self._forget()
        federation = check_federation(self, X)
        if federation.partition not in self._partitions:
            by_columns = federation.partition == "columns"
            instead = _ON_COLUMNS if by_columns else ""
            raise DataError(
                f"{type(self).__name__} works on partitions by "
                f"{' and '.join(self._partitions)}, not by {federation.partition}."
                f"{instead}"
            )
        y = named_target(federation, y)
        try:
            with federation.calling(self, **({} if y is None else {"y": y})):
                self._fit(federation, y)
                self._settle()
            inputs = self._inputs(federation, y)
        except BaseException:
            self._forget()
            raise
        if federation.partition == "columns":
            # What the silos keep of the model lives as long as their federation. It is
            # under this view, unless the model names another.
            self.kept_ = vars(self).get("kept_", federation.kept_here)
            self._silos = federation
        self.n_features_in_ = inputs.n_features
        if inputs.named:
            self.feature_names_in_ = np.array(inputs.feature_names, dtype=object)
        return self

    @classmethod
    def gives_rows(cls, partition: str) -> bool:
        """Return whether the next step of a study can read what this one makes.

        Parameters
        ----------
        partition : {"rows", "columns"}
            Partition of the study.
        """
        return hasattr(cls, "transform") and partition in cls._gives_views

    def needs(self, partition: str, y: Any = None) -> Needs:
        """Return the model's requirements on the cells of its columns, for plans.

        Parameters
        ----------
        partition : {"rows", "columns"}
            Partition of the federation that it is fitted on.
        y : str or list of str, optional
            As of `fit`.
        """
        spared = [] if y is None or not self._constant_response else y
        return Needs(
            complete=not self._missing,
            varying=self._needs_variation() and partition in self._varying_on,
            within=self._needs_variation_within(),
            except_of=tuple([spared] if isinstance(spared, str) else spared),
            valued=self._needs_values(),
        )

    def _needs_variation(self) -> bool:
        """Return whether a column that is constant over all silos makes a fit fail."""
        return False

    def _needs_variation_within(self) -> bool:
        """Return whether one that is constant within each of them makes a fit fail."""
        return False

    def _needs_values(self) -> bool:
        """Return whether a column without a value in any silo makes a fit fail."""
        return False

    def _n_planned(self) -> int:
        """Return how many classes a plan assumes, which does not know their names."""
        return 2

    def _settle(self) -> None:
        """Take the last digits of the attributes `_computed` from where all ends do.

        Silos that follow go on with a fitted model only if it is the coordinator's, bit
        for bit: to judge its predictions, say.
        """
        here = [name for name in self._computed if name in vars(self)]
        own = {name: np.asarray(vars(self)[name]) for name in here}
        if not own:
            return
        finite = {name: np.asarray(np.nan_to_num(v)) for name, v in own.items()}
        found = settled("fitted attributes", lambda: finite, by_closeness)
        for name, value in own.items():
            taken = np.where(np.isfinite(value), found[name], value)
            scalar = isinstance(vars(self)[name], float)
            setattr(self, name, float(taken) if scalar else taken)

    def _forget(self) -> None:
        """Drop all fitted attributes; parameters and the state of a search stay."""
        for name in (*fitted_names(self), *_OF_A_FIT):
            self.__dict__.pop(name, None)

    def continuing(
        self, reached: Mapping[str, Any] | None, keep: Callable[[dict[str, Any]], None]
    ) -> "FederatedEstimator":
        """Let the next fit continue from the state of an interrupted fit.

        Most fits are short and start again; models with a search override this.

        Parameters
        ----------
        reached : mapping or None
            The last state that the interrupted fit gave to `keep`.
        keep : callable
            Takes the state, as JSON values, after each part of the fit that need not
            be repeated.
        """
        return self

    def continues_from(self) -> Mapping[str, Any] | None:
        """Return the state that the next fit continues from; None from the beginning.

        Silos that follow the fit continue from it too.
        """
        return None

    def _inputs(self, federation: Federation, y: Any) -> Federation:
        """Return the view of the columns that `transform` takes."""
        return federation

    @abc.abstractmethod
    def _fit(self, federation: Federation, y: Any) -> None:
        """Set the fitted attributes, from sums and other rounds of the federation."""

    @classmethod
    def kept_by_silos(cls) -> tuple[str, ...]:
        """Return the attributes that silos keep on a column partition, and may show."""
        return cls._kept_by_silos

    @classmethod
    def forms_scores(cls, parameters: Mapping[str, Any]) -> bool:
        """Return whether silos keep scores only if `transform` is called.

        Parameters
        ----------
        parameters : mapping of str to object
            As a study has them, for a model on a column partition.
        """
        return False

    def _gather(self, federation: Federation) -> None:
        """Collect the attributes `_kept_by_silos` from the silos, and set them."""
        raise NotImplementedError

    def summary(self, later: Sequence[Any] = ()) -> Summary:
        """The results of the fit, as tables that print.

        Parameters
        ----------
        later : sequence of estimator
            Models that were fitted on the rows as this one gives them, in order, such
            as the later steps of a study. What they opened may tell more of this one:
            of an imputer the number of rows.

        Returns
        -------
        Summary
            Prints as text, is shown with pictures in a notebook, and has each table as
            a pandas data frame: ``model.summary().to_frame()``.

        Raises
        ------
        NotFittedError
            Before a fit.

        Notes
        -----
        Released: nothing. The silos are asked for nothing: of what they keep on a
        column partition, the summary has what was read before.
        """
        check_is_fitted(self)
        return Summary(title_of(self), self._all_exhibits(later))

    def _all_exhibits(
        self, later: Sequence[Any], *, part: bool = False
    ) -> list[Exhibit]:
        """Return the exhibits of a summary.

        Parameters
        ----------
        later : sequence of estimator
            As of `summary`.
        part : bool
            Whether the model is a part of another, in whose table a study file writes
            what is asked of the silos.
        """
        # A copy is without its federation, so that it cannot ask the silos.
        alone = copy.copy(self)
        try:
            exhibits = alone._exhibits_with(input_names(self), later)
            listed = not exhibits and "kept_" not in vars(self)
        except DataError:
            # The exhibits read attributes that the silos keep. The other attributes can
            # be listed.
            exhibits, listed = [], True
        if listed:
            fitted = {name: vars(self)[name] for name in fitted_names(self)}
            exhibits = fitted_attributes(fitted)
        if "kept_" in vars(self) and not set(self._kept_by_silos) <= set(vars(self)):
            by_columns = "columns" in self._partitions
            kept = kept_in_silos(self._disclosable(), in_files=by_columns, part=part)
            exhibits.append(kept)
        return exhibits

    def _disclosable(self) -> list[str]:
        """Return the attributes that silos keep and that a study can still ask for."""
        return [name for name in self.kept_by_silos() if name not in vars(self)]

    def _exhibits(self, columns: Sequence[str], /) -> list[Exhibit]:
        """Return the results as tables, pictures and sentences.

        Parameters
        ----------
        columns : sequence of str
            Names of the columns that the model was fitted on.

        Returns
        -------
        list of Exhibit
            Empty where the fitted attributes are to be listed instead. What silos keep
            is read with `vars`: an attribute that is not there is a `DataError`.
        """
        return []

    def _units(self) -> Mapping[str, str]:
        """Return by name the units of the columns that this step gives others.

        Columns that it makes, such as components or indicators, have names that say
        what they are.
        """
        return {}

    def _citation(self) -> Citation:
        """Return a sentence on the method for a paper, and the works to cite."""
        return plain_citation(self)

    def _measure(
        self,
        federation: Federation,
        *,
        metric: str,
        predicts: str,
        arguments: Mapping[str, Any],
    ) -> Any:
        """Return a metric of this model's predictions, as silos that follow do."""
        others = dict(arguments)
        y_true = others.pop("y_true")
        return METRICS[metric](y_true, getattr(self, predicts)(federation), **others)

    def _exhibits_with(
        self, columns: Sequence[str], later: Sequence[Any], /
    ) -> list[Exhibit]:
        """Return `_exhibits`, with what the steps after this one tell of it."""
        return self._exhibits(columns)

    def __getattr__(self, name: str) -> Any:
        """Collect attributes that only the silos have; called for absent attributes."""
        if name not in type(self)._kept_by_silos or "kept_" not in vars(self):
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        if self._silos is None:
            raise DataError(
                f"{name} is kept in the silos, and this {type(self).__name__} was "
                f"read from a file. Ask for {name} before saving, where the silos "
                f"allow it."
            )
        before = set(vars(self))
        if self._asks_silos is not None:
            self._asks_silos()
        else:
            with self._silos.calling(self, "_gather"):
                self._gather(self._silos)
        here = [name for name in self._kept_by_silos if name in vars(self)]
        self._disclosed = tuple(name for name in here if name not in before)
        return vars(self)[name]

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes that are copied or stored: all but the federation."""
        state = dict(super().__getstate__())
        for name in ("_silos", "_asks_silos"):
            state.pop(name, None)
        return state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._missing
        return tags

    def _check_rows(self, X: Any) -> Float[Array, "n p"]:
        """Check an array of new rows as scikit-learn does, against the fit."""
        check_is_fitted(self)
        with warnings.catch_warnings():
            # Every step of a pipeline fitted on a federation knows the columns' names;
            # applied to a frame, all steps but the first receive plain arrays.
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            return validate_data(
                self,
                X,
                reset=False,
                dtype="float64",
                ensure_all_finite="allow-nan" if self._missing else True,
            )

    def _check_objects(self, X: Any) -> Shaped[Array, "n p"]:
        """Check the shape of new rows that may hold text; return objects.

        The columns of a data frame or an Arrow table are found by their names.
        """
        check_is_fitted(self)
        names = input_names(self)
        arrow = hasattr(X, "column_names")
        given = list(X.column_names if arrow else getattr(X, "columns", ()))
        if given and "feature_names_in_" in vars(self) and _are_texts(given):
            if absent := [name for name in names if name not in given]:
                raise ValueError(
                    f"X has no column {listing(absent)}, with which "
                    f"{type(self).__name__} was fitted. It has {listing(given)}."
                )
            if arrow:
                X = np.array([X[name].to_pylist() for name in names], dtype=object).T
            else:
                X = X[names]
        rows = np.array(X, dtype=object)
        if rows.ndim != 2 or rows.shape[1] != len(names):
            raise ValueError(
                f"X has shape {rows.shape}, but {type(self).__name__} is expecting "
                f"{len(names)} features as input."
            )
        return rows

    def _check_transformed(self, X: Any, width: int) -> Float[Array, "n q"]:
        """Check an array of rows as `transform` returns them, `width` columns."""
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

    def _applied(
        self,
        X: Any,
        step: Step,
        arguments: Mapping[str, Any],
        columns: Sequence[str] | None = None,
    ) -> Any:
        """Return rows as a step transforms them, or the view of a federation by it.

        Parameters
        ----------
        X : (n, p) array-like or Federation
            By rows.
        step : Step
            Declared with `derived`.
        arguments : mapping of str to object
            The step's arguments.
        columns : sequence of str, optional
            Names of the columns that it makes; as they were when omitted.
        """
        if not isinstance(X, Federation):
            return step(self._check_rows(X), **arguments)
        view = self._check_view(X)
        return view.derive(step, columns or view.feature_names, **arguments)

    def _taught(self, twin: Any, names: Sequence[str] | None = None) -> Any:
        """Copy fitted attributes, all or some, to a twin of another library."""
        check_is_fitted(self)
        for name in fitted_names(self):
            if names is None or name in names:
                value = getattr(self, name)
                setattr(twin, name, value.copy() if isinstance(value, Array) else value)
        return twin


def _are_texts(names: Sequence[Any]) -> bool:
    return all(isinstance(name, str) for name in names)


def described(federation: Federation, columns: Sequence[str]) -> Federation:
    """Return a description of some columns of a column partition.

    A party may have none of them, so it is not for making rounds.
    """
    wanted = set(columns)
    by_party = {
        party: tuple(name for name in own if name in wanted)
        for party, own in federation.columns_of.items()
    }
    view = federation.over(federation.coordinator)
    columns_of = {party: own for party, own in by_party.items() if own}
    view.layout = replace(federation.layout, columns_of=columns_of)
    return view


def input_names(model: Any, given: Sequence[Any] | None = None) -> list[str]:
    """Return `given` names of columns, those of the fit, or x0, x1, ...

    Raises
    ------
    ValueError
        When the names are not as many as the columns of the fit.
    """
    n = vars(model).get("n_features_in_", 0)
    if given is not None and len(given) != n:
        raise ValueError(f"input_features has {len(given)} names; give {n}.")
    known = vars(model).get("feature_names_in_") if given is None else given
    if known is None:
        known = [f"x{j}" for j in range(n)]
    return [str(name) for name in known]


def fitted_names(model: Any) -> list[str]:
    """Return the names of the fitted attributes: those that end in ``_``."""
    return [name for name in vars(model) if name.endswith("_") and name[0] != "_"]


def named_target(federation: Federation, y: Any) -> Any:
    """Return the target of a fit as JSON values: None, a name or a list of names.

    Raises
    ------
    DataError
        For values in place of the name of their column, or a view of a federation.
    """
    if y is None or isinstance(y, str):
        return y
    if isinstance(y, Federation):
        columns = list(y.feature_names[:2])
        raise DataError(
            f"y is a Federation. The second view is named by its columns, of the same "
            f"federation: fit(federation, y={columns}), where the silos' tables have "
            f"the columns of both views."
        )
    # A frame is iterated over its columns, as if they were named.
    names = None if hasattr(y, "columns") else [*getattr(y, "tolist", lambda: y)()]
    known = {*federation.feature_names, *federation.parties, federation.label}
    if names and all(isinstance(name, str) for name in names):
        if isinstance(y, list | tuple) or known.issuperset(names):
            return names
    own = getattr(y, "name", None)
    label = federation.label or (own if isinstance(own, str) else "name")
    raise DataError(
        f"y is a {type(y).__name__} of values. The rows of a federation are in their "
        f'silos, and so are their labels: name the column, fit(federation, y="{label}")'
        f', which simulate(..., label="{label}") keeps beside the features.'
    )


def check_all_rows(federation: Federation, why: str) -> None:
    """Refuse folds and parts of splits; say why.

    What silos' own means, or intercepts, are in is no sum over rows, and there are as
    many equations for them as unions of blocks.
    """
    if any(isinstance(one, Rows) for one in federation.operations):
        raise DataError(why)


def disclosed_columns(
    federation: Federation, step: Step, **asked: Any
) -> dict[str, Any]:
    """Return the silos' disclosed values on a column partition, as one array.

    Parameters
    ----------
    federation : Federation
        Whose silos must all allow it.
    step : Step
        Declared with `disclosed`; each of its arrays has an axis p, along which those
        of the silos are joined, in the order of the federation's columns.
    **asked
        As of `Federation.collect`.
    """
    found = federation.collect(step, **asked)
    axes = {name: one.letters.index("p") for name, one in step.leaves.items()}
    return {
        name: np.concatenate(
            [found[party][name] for party in federation.parties], axis=axis
        )
        for name, axis in axes.items()
    }


def check_federation(estimator: Any, X: Any) -> Federation:
    """Return X as seen by the estimator; refuse anything but a federation."""
    if isinstance(X, Federation):
        return X.asked_by(home_of(type(estimator).__module__))
    raise DataError(
        f"{type(estimator).__name__}.fit takes a Federation, not {type(X).__name__}. "
        f"Make one with unpooled.simulate({{name: data, ...}}), or use scikit-learn "
        f"for data in one place."
    )
