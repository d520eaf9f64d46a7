"""Steps: functions that run in a silo, with what they release declared above them.

    @summed(count=release("", meaning="how many rows there are"), total="p")
    def local_total(X): ...

The declaration is the only source for checking, policy, codes, ledger, plan, report and
documentation. A step is a pure function of the silo's rows (`X`, `y`, and `sums`, of
X's columns; `cells` in place of `X` where columns may hold codes of categories, whose
names are in the silo's `dictionary`; `columns`, the names of X's columns, and `coded`,
of those that hold categories), of what was
kept there (`kept`, the same names in every silo), of the party's name (`party`) and of
public arguments (keyword-only), and returns one array per declared name. One annotated
with a dataclass stands for its fields, each a public argument by itself. With
``by="rows"``, the default, a step must be additive over rows: a silo may run it block
by block, over files larger than memory, and add.
"""

import functools
import importlib
import importlib.util
import inspect
import itertools
import pkgutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from types import ModuleType
from typing import Any, final

from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.protocol.declaration import (
    Declared,
    Public,
    Weighed,
    bind_axes,
    public,
    release,
    stays,
    totals_of,
)
from unpooled.protocol.refusal import Refusal
from unpooled.secure.comparison.joint_computation import JointComputation
from unpooled.secure.comparison.polynomial import Polynomial
from unpooled.secure.comparison.shared_eigenpairs import SharedEigenpairs
from unpooled.secure.comparison.shared_products import SharedProducts

# Everything that an author of steps needs.
__all__ = ["LIBRARY", "Declared", "Polynomial", "SharedEigenpairs", "SharedProducts"]
__all__ += ["Step", "Weighed"]
__all__ += ["check_installed", "compared", "computed", "derived", "disclosed"]
__all__ += ["exchanged"]
__all__ += ["find_step", "kept", "named_for", "public", "release", "stays"]
__all__ += ["steps_of", "summed", "totals_of"]

LIBRARY = "unpooled.models."
# Modules that moved: their steps keep the names that ledgers, audit logs and policies
# have for them.
_FORMER = {
    f"{LIBRARY}correspondence.correspondence_columns": "own_columns",
    f"{LIBRARY}description.describe_columns": "own_columns",
    f"{LIBRARY}generalized_eigen.generalized_eigen": "eigenproblem",
    f"{LIBRARY}generalized_eigen.matrix_pairs": "pairs",
    f"{LIBRARY}kernel_pca.kernel_pca_columns": "columns",
    f"{LIBRARY}pca.pca_columns": "columns",
    f"{LIBRARY}row_space": "span",
    f"{LIBRARY}two_views.two_views": "twoviews",
}
_READABLE = "X, cells, coded, columns, dictionary, inbox, kept, party, sums, y"


@final
@dataclass(frozen=True, eq=False)
class Step:
    """A declared function. Calling it runs the function, for tests and notebooks.

    Attributes
    ----------
    name : str
        "pca.local_total" for the library's own, the full dotted name for others.
    verb : str
        "summed", "disclosed", "kept", "exchanged", "compared", "computed" or "derived".
    by : str
        "rows" when additive over rows, "party" when it needs the silo's rows together.
    takes : mapping of str to Public
        Axes and meaning of the public arguments that are arrays. The axes are checked,
        and bind letters that no table knows, such as k.
    sparse : bool
        Whether X may be a SciPy array in CSR form; others get dense blocks.
    fitted_by, by_column, by_pattern, affine, own_rows : see `derived`
    of_source, by_cells, from_noise, widens : see `derived`
    computation : JointComputation or None
        The polynomial whose sign a compared step opens, or the results that a computed
        step opens of its totals.
    reuses : bool
        The silo keeps the totals, and runs the step on new rows only.
    between_two : bool
        Some entries of the totals are a single silo's, or follow from several totals,
        so they are for two silos that open them by themselves: each has the other's
        value anyway.
    settings : tuple of str
        Public arguments of which a silo answers one setting only: the step is not
        additive, so that each setting would be one more point of a curve that has the
        silo's own values in it, or totals of two settings subtract to those of a few
        rows. "settings.beta" is an entry of a mapping.
    groups : str
        Name of an argument: where it is true, the last column numbers groups of rows,
        whose values are added before they are multiplied. A silo answers about one such
        column, since two groupings of rows may differ in few of them.
    describes : str
        "all rows" or "classes" where it shows counts of the silo's own rows, of all or
        by the label. A silo that lets its own values be seen answers one of the two in
        each version of its table, and by one label.
    searches : bool
        Whether it is a round of a search for quantiles of the columns. A silo answers
        it about each column in two units at the most: of many units the counts below
        candidates, which nobody chooses, would be those below any number.
    within_silos : bool
        Whether its sums are of polynomials of the values, such as values, squares and
        products, or compare predictions with labels or responses. About columns that
        have numbers of the silo's own in them (`own_rows`), a silo answers such steps
        only: counts below a number, or weights that depend on the values, would tell
        the silo's numbers. Of a transform: see `derived`.
    """

    name: str
    verb: str
    function: Callable[..., Any]
    declared: Mapping[str, Declared]
    by: str
    takes: Mapping[str, Public]
    reads: tuple[str, ...]
    public: tuple[str, ...]
    fitted_by: tuple[str, ...] = ()
    sparse: bool = False
    by_column: bool | str = False
    by_pattern: bool = False
    affine: bool = False
    own_rows: bool = False
    of_source: bool = False
    by_cells: bool = False
    from_noise: bool = False
    widens: str = ""
    computation: JointComputation | None = None
    reuses: bool = False
    between_two: bool = False
    settings: tuple[str, ...] = ()
    groups: str = ""
    describes: str = ""
    searches: bool = False
    within_silos: bool = False

    def __call__(self, *args: Any, **public: Any) -> Any:
        """Run the function as it is: nothing is checked, nothing leaves."""
        found = self.function(*args, **public)
        return totals_of(found) if self.weighs_rows else found

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        return self.function.__doc__

    @functools.cached_property
    def leaves(self) -> dict[str, Declared]:
        """The arrays that are sent."""
        return {name: d for name, d in self.declared.items() if not d.kept}

    @functools.cached_property
    def weighs_rows(self) -> bool:
        """Whether some of its sums are of rows with weights."""
        return any(one.weighed for one in self.declared.values())

    @property
    def shares_people(self) -> bool:
        """Whether silos' processes have shares of a total with entries for people."""
        return self.computation is not None and self.computation.shares_people

    def shapes(self, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """Return the shape of each array that is sent, or that is computed."""
        return {name: one.shape(sizes) for name, one in self.leaves.items()}

    def sizes(
        self, n_features: int, public: Mapping[str, Any], n_rows: int | None = None
    ) -> dict[str, int]:
        """Return the sizes of axis letters, checking the public arguments.

        `n_rows` is N, known on column partitions only.

        Raises
        ------
        DataError
            When an argument is absent, unknown, or not of the declared axes.
        """
        if set(public) != set(self.public):
            raise DataError(
                f"{self.name} takes the public arguments {list(self.public)}, "
                f"not {sorted(public)}.",
                rule="arguments",
            )
        sizes = {"p": n_features} | ({} if n_rows is None else {"N": n_rows})
        return bind_axes(self.name, self.takes, public, sizes)


def summed(
    *,
    by: str = "rows",
    takes: Mapping[str, str | Public] | None = None,
    sparse: bool = False,
    reuses: bool = False,
    between_two: bool = False,
    settings: Sequence[str] | None = None,
    groups: str = "",
    searches: bool = False,
    within_silos: bool = False,
    **declared: Any,
) -> Callable[[Callable[..., Any]], Step]:
    """Declare a step whose arrays are opened only as totals over all parties.

    Parameters
    ----------
    by, sparse
        See `Step`.
    takes : mapping of str to str or Public, optional
        Public arguments that are arrays: their axes, or `public` with their meaning.
    reuses : bool, default False
        For a step that reads `X` alone, by rows: see
        `unpooled.party.steps.incremental`.
    between_two : bool, default False
        See `Step`. Elsewhere a silo takes such a step for a disclosure of its value.
    settings : sequence of str, optional
        See `Step`. None: of a step that is not additive over rows, all arguments that
        are neither arrays or sizes (`takes`), nor bounds, nor the seed. Name none where
        the total for one setting gives those for all others.
    groups : str, default ""
        See `Step`.
    searches, within_silos : bool, default False
        See `Step`.
    **declared : str or Declared
        Axes of each array that the step returns, or its whole declaration.
    """
    properties = {"sparse": sparse, "reuses": reuses, "between_two": between_two}
    properties |= {"searches": searches, "within_silos": within_silos}
    declare = _declaring("summed", by, takes, declared, groups=groups, **properties)
    return lambda function: _with_settings(declare(function), settings)


def disclosed(
    *,
    by: str = "rows",
    takes: Mapping[str, str | Public] | None = None,
    describes: str = "",
    **declared: Any,
) -> Callable[[Callable[..., Any]], Step]:
    """Declare a step whose arrays the coordinator sees, one value per party."""
    return _declaring("disclosed", by, takes, declared, describes=describes)


def kept(
    *,
    by: str = "rows",
    takes: Mapping[str, str | Public] | None = None,
    settings: Sequence[str] | None = None,
    **declared: Any,
) -> Callable[[Callable[..., Any]], Step]:
    """Declare a step whose arrays stay in the silo under (study, name)."""
    stay = {name: replace(_as_declared(d), kept=True) for name, d in declared.items()}
    declare = _declaring("kept", by, takes, stay)
    return lambda function: _with_settings(declare(function), settings)


def exchanged(
    *,
    by: str = "rows",
    takes: Mapping[str, str | Public] | None = None,
    **declared: Any,
) -> Callable[[Callable[..., Any]], Step]:
    """Declare a step whose arrays the party's neighbours see in clear.

    Later steps find them in `inbox`: party -> {name: array}, its own included.
    """
    if any(_as_declared(one).symmetric for one in declared.values()):
        raise TypeError(
            "An exchanged array cannot be declared symmetric: it is sent whole. Leave "
            "out symmetric=True."
        )
    return _declaring("exchanged", by, takes, declared)


def compared(
    polynomial: Polynomial,
    *,
    by: str = "rows",
    takes: Mapping[str, str | Public] | None = None,
    searches: bool = False,
    **declared: Any,
) -> Callable[[Callable[..., Any]], Step]:
    """Declare a step of whose totals all parties learn one sign.

    Parameters
    ----------
    polynomial : Polynomial
        A polynomial of the arrays that the step returns, entry by entry. The parties
        compute together whether it is negative.
    by, takes, searches
        As of `summed`.
    **declared : str or Declared
        The one array of signs, with the axes of the arrays that the step returns.
    """
    if len(declared) != 1:
        raise TypeError(f"A comparison declares one array of signs, not {declared}.")
    total = summed(by=by, takes=takes, searches=searches, **declared)
    return _in_secret(polynomial, total)


def computed(
    computation: SharedEigenpairs | SharedProducts,
    *,
    by: str = "rows",
    takes: Mapping[str, str | Public] | None = None,
    between_two: bool = False,
    settings: Sequence[str] | None = None,
    within_silos: bool = False,
    **declared: Any,
) -> Callable[[Callable[..., Any]], Step]:
    """Declare a step whose total stays in secret sharing; a result of it is opened.

    Parameters
    ----------
    computation : SharedEigenpairs or SharedProducts
        What the parties compute together of the array that the step returns.
    by, takes, between_two, settings, within_silos
        As of `summed`.
    **declared : str or Declared
        The arrays that the computation opens.
    """
    if set(declared) != computation.declares:
        raise TypeError(
            f"The computation opens {sorted(computation.declares)}, not "
            f"{sorted(declared)}."
        )
    total = summed(
        by=by,
        takes=takes,
        between_two=between_two,
        settings=settings,
        within_silos=within_silos,
        **declared,
    )
    return _in_secret(computation, total)


def derived(
    *,
    takes: Mapping[str, str | Public] | None = None,
    fitted_by: tuple[str, ...] = (),
    by_column: bool | str = False,
    by_pattern: bool = False,
    affine: bool = False,
    own_rows: bool = False,
    of_source: bool = False,
    by_cells: bool = False,
    from_noise: bool = False,
    widens: str = "",
    settings: Sequence[str] = (),
    within_silos: bool | None = None,
) -> Callable[[Callable[..., Any]], Step]:
    """Declare a transform of rows that views apply inside the silo.

    It takes a block (n, p) and returns a block with the same rows; nothing leaves. It
    may read `kept`, what the silo itself kept for the fit that the view names.

    Parameters
    ----------
    takes : mapping of str to str or Public, optional
        As for `summed`.
    fitted_by : tuple of str
        Names of the steps whose totals fit it.
    by_column : bool, "missing" or "indicator", default False
        Each column is made of the one in its place alone; with "missing" it differs in
        missing cells only, and with "indicator" it tells which cells these are and
        fills none. A "missing" transform that reads `cells` leaves codes of categories
        codes; their names, if a silo may lack them, are its argument `names`.
    by_pattern : bool, default False
        It fills missing cells of the table's own columns from the other cells of their
        row, alike for all rows that lack the same cells. Where few rows do, the silo
        fills their cells with `initial`, an argument with a number for each column
        (`unpooled.party.rules.imputed_rows`).
    affine : bool, default False
        Each column is shifted and scaled, which leaves the leverage of rows as it is.
    own_rows : bool, default False
        On a row partition it reads what the silo kept of all of its own rows, and is
        applied to all rows, never to a fold. Without it a transform that reads `kept`
        is for column partitions alone.
    of_source : bool, default False
        It has no value for some rows, and a silo refuses where it has such rows. So it
        reads the table's own columns, imputed or not, and none that a transform made:
        otherwise that refusal would compare cells with a number that somebody chose.
    by_cells : bool, default False
        What the silo kept, and it reads, are cells of its columns, such as medians: it
        shows nobody what follows from them next to what it shows of the columns.
    from_noise : bool, default False
        Its arrays were found from totals with noise alone, and each of its rows depends
        on the same row and on them: a private step may read what it makes.
    widens : {"", "groups", "indicators", "bins"}
        On a column partition, which further columns it makes of each column, as many as
        the silo kept (`unpooled.protocol.widened_columns`).
    settings : sequence of str
        Array arguments with a last axis over columns, of which a silo answers one only
        for each column: rows on which two of them differ may be few. Of a transform
        that reads `kept`, such arrays that the silo kept.
    within_silos : bool, optional
        Whether each column is a linear function of those that are read, so that a silo
        applies it to columns that have numbers of the silo's own in them, and answers
        steps that are `within_silos`. By default where it is affine or is about missing
        cells alone.
    """
    if within_silos is None:
        within_silos = affine or by_column in ("missing", "indicator")
    return _declaring(
        "derived",
        "rows",
        takes,
        {},
        fitted_by=fitted_by,
        by_column=by_column,
        by_pattern=by_pattern,
        affine=affine,
        own_rows=own_rows,
        of_source=of_source,
        by_cells=by_cells,
        from_noise=from_noise,
        widens=widens,
        settings=tuple(settings),
        within_silos=within_silos,
    )


def home_of(module: str) -> str:
    """Return the first half of the names of a module's steps, such as "pca"."""
    if not module.startswith(LIBRARY):
        return module
    return _FORMER.get(module, module.rpartition(".")[2])


@functools.cache
def _library_homes() -> Mapping[str, str]:
    """Return the library's module for each first half of a step's name."""
    package = importlib.import_module(LIBRARY.rstrip("."))
    found = pkgutil.walk_packages(package.__path__, LIBRARY)
    return {home_of(one.name): one.name for one in found if not one.ispkg}


@functools.cache
def steps_of(model: str) -> Mapping[str, Step]:
    """Return the steps of a library model, by their functions' names.

    They are those that its class lists in `_steps`, and those of its own module.
    """
    module = importlib.import_module(_library_homes()[model])
    steps: list[Step] = []
    for kind in vars(module).values():
        if isinstance(kind, type) and kind.__module__ == module.__name__:
            for part in getattr(kind, "_steps", ()):
                steps += [part] if isinstance(part, Step) else _declared_in(part)
    by_name: dict[str, Step] = {}
    for step in [*steps, *_declared_in(module)]:
        attribute = step.function.__name__
        if by_name.setdefault(attribute, step).function is not step.function:
            raise TypeError(f"Two steps of {model} have the name {attribute}.")
    return {
        attribute: step if step.name == name else replace(step, name=name)
        for attribute, step in by_name.items()
        for name in [f"{model}.{attribute}"]
    }


def _declared_in(module: ModuleType) -> list[Step]:
    home = home_of(module.__name__)
    steps = [one for one in vars(module).values() if isinstance(one, Step)]
    return [step for step in steps if step.name.rpartition(".")[0] == home]


def named_for(model: str, step: Step) -> Step:
    """Return a step under the name of the model that asks for it.

    Ledger, plan, report and policies then say which model asks, wherever the step is
    declared. A step that the model does not list keeps the name of its own module.

    Parameters
    ----------
    model : str
        First half of the step names of an estimator (`home_of` its module).

    Raises
    ------
    DataError
        When silos would not find the step by its name.
    """
    if model in _library_homes():
        found = steps_of(model).get(step.function.__name__)
        if found is not None and found.function is step.function:
            return found
    check_installed(step)
    return step


def find_step(name: str) -> Step:
    """Look a step up in what is installed here; no code ever comes with a request.

    Others than the library's are found only in modules already imported.
    """
    module_name, _, attribute = name.rpartition(".")
    if module_name in _library_homes():
        # Imported by name, because models are built upon this layer.
        step = steps_of(module_name).get(attribute)
        if step is None:
            raise ReleaseRefusedError("the silo", "a step", "allowed_steps")
        return step
    # Not getattr: a module's own __getattr__ would run code, and may import more.
    step = getattr(sys.modules.get(module_name), "__dict__", {}).get(attribute)
    if not isinstance(step, Step) or step.name != name:
        raise ReleaseRefusedError("the silo", "a step", "allowed_steps")
    return step


def module_of(step: str) -> str:
    """Return the name of the module that a step's name leads to, imported if ours."""
    home = step.rpartition(".")[0]
    module = _library_homes().get(home, home)
    return importlib.import_module(module).__name__ if module != home else home


def check_installed(step: Step) -> None:
    """Refuse a step that silos would not find by its name."""
    module_name, _, attribute = step.name.rpartition(".")
    module = sys.modules.get(_library_homes().get(module_name, module_name))
    if module is None or vars(module).get(attribute) is not step:
        raise DataError(
            f"Silos look steps up by name and would not find {step.name}. Declare it "
            f"at the top of a module, not within a function."
        )


def of_protocol(name: str, verb: str, declared: Mapping[str, Declared]) -> Step:
    """Return a stage of the protocol, declared like a step for ledger and plan.

    No request finds it by its name.
    """

    def refuse() -> Any:
        raise Refusal("allowed_steps")

    return Step(name, verb, refuse, declared, by="party", takes={}, reads=(), public=())


def _in_secret(
    computation: JointComputation,
    declare: Callable[[Callable[..., Any]], Step],
) -> Callable[[Callable[..., Any]], Step]:
    """Return a decorator of sums that stay in secret sharing."""
    return lambda function: replace(
        declare(function), verb=computation.verb, computation=computation
    )


def _with_settings(step: Step, settings: Sequence[str] | None) -> Step:
    if settings is not None:
        return replace(step, settings=tuple(settings))
    # An array that was kept is any function of the rows.
    of_rows = bool({"X", "cells", "y"} & set(step.reads))
    of_kept = step.verb == "summed" and "kept" in step.reads
    if not (step.by == "party" if of_rows else of_kept):
        return step
    bounds = [vars(d.bound).values() for d in step.leaves.values() if d.bound]
    others = {"seed", *step.takes, *itertools.chain.from_iterable(bounds)}
    return replace(step, settings=tuple(n for n in step.public if n not in others))


def _as_declared(declaration: str | Declared) -> Declared:
    return Declared(declaration) if isinstance(declaration, str) else declaration


def _as_public(argument: str | Public) -> Public:
    return Public(argument, "") if isinstance(argument, str) else argument


def _declaring(
    verb: str,
    by: str,
    takes: Mapping[str, str | Public] | None,
    declared: Mapping[str, str | Declared],
    **properties: Any,
) -> Callable[[Callable[..., Any]], Step]:
    if by not in ("rows", "party"):
        raise ValueError(f'by={by!r}; choose "rows" or "party".')

    def declare(function: Callable[..., Any]) -> Step:
        parameters = inspect.signature(function).parameters.values()
        reads = tuple(p.name for p in parameters if p.kind is not p.KEYWORD_ONLY)
        if not set(reads) <= set(_READABLE.split(", ")):
            raise TypeError(f"{function.__name__} may read {_READABLE}, not {reads}.")
        function, public = _by_fields(function)
        everything = {name: _as_declared(d) for name, d in declared.items()}
        if by == "rows" and any("N" in d.letters for d in everything.values()):
            raise TypeError(f'{function.__name__} needs by="party": it has an axis N.')
        return Step(
            name=f"{home_of(function.__module__)}.{function.__name__}",
            verb=verb,
            function=function,
            declared=everything,
            by=by,
            takes={name: _as_public(one) for name, one in (takes or {}).items()},
            reads=reads,
            public=public,
            **properties,
        )

    return declare


def _by_fields(
    function: Callable[..., Any],
) -> tuple[Callable[..., Any], tuple[str, ...]]:
    """Return a function of its public arguments one by one, and their names.

    A dataclass that it takes is made of those that have the names of its fields.
    """
    names, kinds = list[str](), dict[str, Any]()
    for one in inspect.signature(function).parameters.values():
        if one.kind is not one.KEYWORD_ONLY:
            continue
        if is_dataclass(one.annotation):
            kinds[one.name] = one.annotation
            names += [each.name for each in fields(one.annotation)]
        else:
            names.append(one.name)
    if not kinds:
        return function, tuple(names)

    @functools.wraps(function)
    def called(*args: Any, **public: Any) -> Any:
        for name, kind in kinds.items():
            known = [each.name for each in fields(kind) if each.name in public]
            public[name] = kind(**{each: public.pop(each) for each in known})
        return function(*args, **public)

    return called, tuple(names)
