"""Fits recorded here and repeated on another machine, from what was opened alone.

    here        the coordinator's requests, the totals they opened, its hints
    elsewhere   the same program against these totals and hints: equal requests, bit
                for bit, or `Diverged`

The other machine is another process, with the kernels of another processor and other
numbers of threads: ``python -m support.replayed_fits FILE`` repeats what FILE has.
"""

import copy
import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, final

import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline

import unpooled as up
from unpooled.coordinator.step_call import RoundRunner, StepCall
from unpooled.data.heart_disease import load
from unpooled.errors import DataError, UnpooledError
from unpooled.federation.federation import Federation
from unpooled.linalg.settled import Hint, checking, recording, unsettled
from unpooled.models.base import fitted_names
from unpooled.models.files.catalogue import estimators
from unpooled.models.model_selection.cross_validation import CrossValidation
from unpooled.models.model_selection.permutation_test import PermutationTest
from unpooled.party.rules.policy import Policy
from unpooled.protocol.following import Call
from unpooled.protocol.request import view_arrays
from ways import WAYS, Way

# A program makes its federation, and runs on it.
Program = Callable[[Federation], Any]


class Diverged(AssertionError):  # noqa: N818 - reads as what happened
    """A request differs from the recorded one."""


def request_of(call: StepCall, study: str, number: int) -> dict[str, Any]:
    """Every argument of a request, with its view, in a form that compares."""
    whole = frozenset(view_arrays(call.operations))
    request = call.request(study=study, session="", round_number=number, fresh=whole)
    header, arrays = request.as_message()
    sizes = repr(sorted((p, repr(size)) for p, size in call.extents.items()))
    return {
        "header": repr(_sorted(header)),
        "sizes": sizes,
        **{f"array {name}": copy.deepcopy(value) for name, value in arrays.items()},
    }


def _sorted(value: Any) -> Any:
    """JSON keeps no order of keys."""
    if isinstance(value, Mapping):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return value


def difference(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    """What differs between two requests, in words; empty where nothing does."""
    if list(ours) != list(theirs):
        return f"{sorted(ours)} rather than {sorted(theirs)}"
    for name, a in ours.items():
        b = theirs[name]
        if isinstance(a, str):
            if a != b:
                at = next(i for i in range(len(a)) if a[: i + 1] != b[: i + 1])
                return f"{name}: {a[at : at + 90]} rather than {b[at : at + 90]}"
        elif a.tobytes() != b.tobytes() or a.shape != b.shape:
            apart = np.abs(a - b).max() if a.shape == b.shape else np.inf
            return f"{name} by {apart:.1e}"
    return ""


@final
@dataclass
class Transcript:
    """What a silo would have of a fit: requests, opened totals and hints."""

    requests: list[dict[str, Any]] = field(default_factory=list)
    results: list[Any] = field(default_factory=list)
    hints: list[Hint] = field(default_factory=list)
    models: list[dict[str, bytes]] = field(default_factory=list)
    seed: int = 0


class _Runner(RoundRunner):
    """A round runner in place of a live one, of the same parties."""

    def __init__(self, live: RoundRunner, transcript: Transcript) -> None:
        self.live, self.transcript = live, transcript
        self.parties, self.study = live.parties, live.study
        self.protection, self.planned = live.protection, live.planned
        self.ledger, self.records, self.notes = live.ledger, [], []
        self.follows = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.live, name)

    def enter(self, call: Callable[[], Call] | None = None) -> None:
        self.live.enter(call)

    def exit(self) -> None:
        self.live.exit()

    def begin_computing(self, allow_coordinator_party: bool = False) -> None:
        self.live.begin_computing(allow_coordinator_party)

    def seed(self) -> int:
        return self.transcript.seed


def fitted_bits(model: Any) -> dict[str, bytes]:
    """The fitted numbers that metrics and transforms of a model would start from."""
    found: dict[str, bytes] = {}
    for name in fitted_names(model):
        value = vars(model)[name]
        # One array for each column, where columns have different numbers of bins.
        parts = value if isinstance(value, list | tuple) else [value]
        for i, part in enumerate(parts):
            if isinstance(part, np.ndarray | float | int):
                if np.asarray(part).dtype.kind in "fi":
                    found[f"{name}[{i}]"] = np.asarray(part).tobytes()
    return found


@final
class Recorder(_Runner):
    """Asks the live runner, and keeps what was asked and opened."""

    def run_step(self, call: StepCall) -> dict[str, Any]:
        number = len(self.transcript.requests)
        request = request_of(call, self.study, number)
        # What the coordinator does beside the program is not repeated.
        with unsettled():
            result = self.live.run_step(call)
        self.transcript.requests.append(request)
        self.transcript.results.append(copy.deepcopy(result))
        return result

    def fitted(self, model: Any) -> None:
        self.transcript.models.append(fitted_bits(model))


@final
class Replayer(_Runner):
    """Answers with what was opened; a request that differs ends the fit."""

    at = 0
    models = 0

    def enter(self, call: Callable[[], Call] | None = None) -> None:
        pass

    def exit(self) -> None:
        pass

    def begin_computing(self, allow_coordinator_party: bool = False) -> None:
        pass

    def run_step(self, call: StepCall) -> dict[str, Any]:
        if self.at == len(self.transcript.requests):
            raise Diverged(f"{call.step.name} after the end")
        ours = request_of(call, self.study, self.at)
        wrong = difference(ours, self.transcript.requests[self.at])
        if wrong:
            raise Diverged(f"request {self.at}, {call.step.name}: {wrong}")
        self.at += 1
        return copy.deepcopy(self.transcript.results[self.at - 1])

    def fitted(self, model: Any) -> None:
        theirs = self.transcript.models[self.models]
        self.models += 1
        for name, ours in fitted_bits(model).items():
            if ours != theirs[name]:
                raise Diverged(f"{type(model).__name__}.{name} has other bits")


def recorded(make: Callable[[], Federation], program: Program) -> Transcript:
    """Run a program, and return what a silo would have of it."""
    federation = make()
    transcript = Transcript(seed=federation.coordinator.seed())
    with recording() as hints:
        program(federation.over(Recorder(federation.coordinator, transcript)))
    transcript.hints = hints
    return transcript


def replayed(
    make: Callable[[], Federation], program: Program, transcript: Transcript
) -> None:
    """Run a program against a transcript; raise where it differs."""
    federation = make()
    runner, hints = Replayer(federation.coordinator, transcript), iter(transcript.hints)
    with checking(hints):
        program(federation.over(runner))
    if runner.at != len(transcript.requests):
        raise Diverged(f"ended after {runner.at} of {len(transcript.requests)} rounds")
    if next(hints, None) is not None:
        raise Diverged("ended before the last hint")


# --------------------------------------------------------------------- the programs

PRIVATE = {"epsilon": 5.0, "delta": 1e-5, "row_norm": 500.0}
SIGNS = ["thalach", "exang", "oldpeak"]
Case = tuple[Callable[[], Federation], Program]


def _simulated(parties: Mapping[str, Any], **options: Any) -> Federation:
    options = {"random_state": 0, **options}
    return up.simulate(
        parties, policy=Policy.open(), study="replayed", secure_sum="plain", **options
    )


def _hospitals(complete: bool = True, **options: Any) -> Federation:
    tables = {name: t.to_pandas().astype(float) for name, t in load().items()}
    if complete:
        tables = {n: t.fillna(t.median()).fillna(0.0) for n, t in tables.items()}
    silos = {name: tables[name] for name in list(tables)[:3]}
    return _simulated(silos, label="num", **options)


def _columns(parties: int = 3, label: str | None = "num") -> Federation:
    table = next(iter(load().values())).to_pandas().astype(float)
    table = table.fillna(table.median()).iloc[:120]
    features = [name for name in table.columns if name != "num"]
    cut = np.array_split(np.array(features, dtype=object), 3)[:parties]
    own = [] if label is None else [label]
    silos = {f"silo{i}": table[[*names, *own]] for i, names in enumerate(cut)}
    return _simulated(silos, partition="columns", label=label)


def _tables(
    p: int = 40, n: int = 300, apart: float | None = None, rank: int | None = None
) -> dict[str, np.ndarray]:
    """Rows with two eigenvalues that are `apart`, relative to each other."""
    rng = np.random.default_rng([p, n])
    U = np.linalg.qr(rng.standard_normal((n, p)))[0]
    U = np.linalg.qr(U - U.mean(axis=0))[0]
    s = 10.0 * 0.9 ** np.arange(p)
    if apart is not None:
        s[2] = s[1] * (1.0 - apart)
    if rank is not None:
        s[rank:] = 0.0
    X = U * s @ np.linalg.qr(rng.standard_normal((p, p)))[0].T
    return {f"silo{k}": part for k, part in enumerate(np.array_split(X, 3))}


def _of_rows(**how: Any) -> Federation:
    return _simulated(_tables(**how))


def _of_columns(
    p: int = 24, n: int = 120, apart: float | None = None, rank: int | None = None
) -> Federation:
    X = np.vstack(list(_tables(p, n, apart, rank).values()))
    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(p)])
    cut = np.array_split(np.arange(p), 3)
    silos = {f"silo{i}": table.iloc[:, own] for i, own in enumerate(cut)}
    return _simulated(silos, partition="columns")


def _wide() -> Federation:
    rng = np.random.default_rng(0)
    silos = {}
    for k in range(3):
        y = rng.integers(0, 3, 20)
        X = rng.standard_normal((20, 90)) + y[:, None] * (np.arange(90) < 5)
        frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(90)])
        silos[f"silo{k}"] = frame.assign(num=y.astype(float))
    return _simulated(silos, label="num")


def _at(way: Way) -> Federation:
    return way.silos(study="replayed", secure_sum="plain").federation


def _way(name: str, way: Way) -> Program:
    """Fit as `every_way` does; what a transform makes is fitted too."""

    def program(federation: Any) -> None:
        model = estimators()[name]()
        model.set_params(**{**model.get_params(), **way.parameters})
        view = way.view(federation)
        model.fit(view, way.y)
        if federation.partition == "rows":
            federation.coordinator.fitted(model)
            # Not all have a transform, and not all results of one are numbers.
            with suppress(AttributeError, DataError):
                up.PCA(1).fit(model.transform(view))

    return program


def _fit(model: Any, y: Any = None, then: Any = None) -> Program:
    """Fit a clone; `then` is fitted on its scores."""
    from sklearn.base import clone

    def program(federation: Any) -> None:
        fitted = clone(model)
        fitted.fit(federation, *([] if y is None else [y]))
        # On columns the silos keep their part, and no later call sends the rest.
        if federation.partition == "rows":
            federation.coordinator.fitted(fitted)
        if then is not None:
            view = fitted.transform(federation)
            clone(then).fit(view)

    return program


def _updated(federation: Federation) -> None:
    model = up.PCA(3).fit(federation)
    model.update(federation)
    up.PCA(2).fit(model.transform(federation))


def _folds(federation: Federation) -> None:
    for train, test in federation.folds(3):
        model = make_pipeline(
            up.StandardScaler(), up.LinearDiscriminantAnalysis(2, shrinkage="auto")
        )
        model.fit(train, "num")
        up.PCA(1).fit(model[0].transform(test))


def _pipeline(federation: Federation) -> None:
    names = [name for name in federation.feature_names if name != "chol"]
    model = make_pipeline(up.SimpleImputer(), up.StandardScaler(), up.PCA(2))
    view = federation.select(names)
    model.fit(view)
    up.PCA(1).fit(model.transform(view))


def _errors_of_standardised(federation: up.Federation) -> None:
    steps = (up.SimpleImputer(), up.StandardScaler())
    make_pipeline(*steps, up.PCA(2, standard_errors=True)).fit(federation)


def _of_regressions(model: Any, y: Any) -> Program:
    """Fit on columns that vary in every silo, so that each has a regression."""
    varying = ["age", "sex", "cp", "thalach", "oldpeak"]

    def program(federation: Any) -> None:
        _fit(model, y)(federation.select(varying))

    return program


def cases() -> dict[str, Case]:
    """Programs by name, over every solver of the library."""
    LDA, scaler = up.LinearDiscriminantAnalysis, up.StandardScaler()
    found: dict[str, Case] = {}
    rows: dict[str, Program] = {
        "pca": _fit(up.PCA(3), then=scaler),
        "pca share whitened": _fit(up.PCA(0.9, whiten=True), then=scaler),
        "pca all": _fit(up.PCA(), then=scaler),
        "pca errors": _fit(up.PCA(3, standard_errors=True)),
        "pca outliers": _fit(up.PCA(3, outliers=True)),
        "pca parallel": _fit(up.PCA("parallel", random_state=0)),
        "pca errors standardised": _errors_of_standardised,
        "pca krylov": _fit(up.PCA(2, svd_solver="krylov"), then=scaler),
        "pca rank": _fit(up.PCA(3, rank=4), then=scaler),
        "pca bits": _fit(up.PCA(3, bits=8), then=scaler),
        "pca private": _fit(up.PCA(2, privacy=PRIVATE)),
        "pca preconditioned": _fit(
            up.PCA(2, privacy={**PRIVATE, "mechanism": "preconditioned"})
        ),
        "pca private power": _fit(
            up.PCA(2, privacy={**PRIVATE, "mechanism": "power"}, random_state=0)
        ),
        "scaler private": _fit(up.StandardScaler(privacy=PRIVATE), then=up.PCA(2)),
        "pca press": _fit(up.PCA("press", cv=2), then=scaler),
        "pca update": _updated,
        "kernel fourier": _fit(
            up.KernelPCA(2, approximation="fourier", n_landmarks=20), then=scaler
        ),
        "lda": _fit(LDA(2), "num", then=scaler),
        "lda shrunk": _fit(LDA(2, shrinkage=0.3), "num", then=scaler),
        "lda auto": _fit(LDA(2, shrinkage="auto"), "num", then=scaler),
        "lda priors": _fit(LDA(2, priors=[0.2] * 5), "num", then=scaler),
        "lda one-shot": _fit(LDA(1, solver="dgep-eigh"), "num", then=scaler),
        "lda power": _fit(LDA(2, solver="dgep-power"), "num", then=scaler),
        "lda factors": _fit(LDA(1, solver="dgep-eigh", factors=True), "num", scaler),
        "lda people": _fit(LDA(1, scores="coordinator"), "num"),
        "cca": _fit(up.CCA(2), SIGNS, then=scaler),
        "cca errors": _fit(up.CCA(2, standard_errors=True), SIGNS, then=scaler),
        "cca one-shot": _fit(up.CCA(1, solver="dgep-eigh"), SIGNS),
        "cca power": _fit(up.CCA(2, solver="dcca-power"), SIGNS),
        "plssvd": _fit(up.PLSSVD(2), SIGNS, then=scaler),
        "plscanonical": _fit(up.PLSCanonical(3), SIGNS, then=scaler),
        "plsregression": _fit(up.PLSRegression(3), SIGNS, then=scaler),
        "correlation": _fit(up.Correlation()),
        "linear robust": _fit(up.LinearRegression(cov_type="HC1"), ["thalach"]),
        "ridge": _fit(up.Ridge(3.0), ["thalach"]),
        "ridge by site": _fit(up.Ridge(3.0, site_effects=True), ["thalach"]),
        "linear by site": _fit(up.LinearRegression(site_effects=True), ["thalach"]),
        "glm by site": _fit(up.GLM("poisson", site_effects=True), ["age"]),
        "glm": _fit(up.GLM("gamma"), ["age"]),
        "glm robust": _fit(up.GLM("poisson", cov_type="HC0"), ["age"]),
        "logistic by gradients": _fit(up.LogisticRegression(1.0, solver="bfgs"), "num"),
        "logistic": _fit(up.LogisticRegression(1.0), "num"),
        "factors": _fit(up.FactorAnalysis(3), then=scaler),
        "factors promax": _fit(
            up.FactorAnalysis(3, rotation="promax", kaiser=True), then=scaler
        ),
        "heterogeneity": _fit(up.Heterogeneity(3)),
        "meta-analysis": _of_regressions(up.MetaAnalysis(), ["age"]),
        "meta-analysis of classes": _of_regressions(
            up.MetaAnalysis("binomial"), ["sex"]
        ),
        "personalized": _fit(up.PersonalizedPCA(2, 2), then=up.StandardScaler()),
        "personalized as published": _fit(
            up.PersonalizedPCA(2, 1, solver="stiefel", tol=1e-3)
        ),
        "scaler": _fit(scaler, then=up.PCA(2)),
        "generalized": _fit(
            up.GeneralizedEigen(2, pair="pairs.local_canonical", public={"first": 6}),
            then=scaler,
        ),
        "power summed": _fit(up.PowerTransformer(comparison="summed"), then=up.PCA(2)),
        "folds": _folds,
        "jackknife": _fit(CrossValidation(up.PCA(2), cv=2, n_blocks=3)),
        "permuted classes": _fit(PermutationTest(LDA(), n_permutations=19), "num"),
        "permuted views": _fit(PermutationTest(up.CCA(), n_permutations=19), SIGNS),
        "permuted columns": _fit(PermutationTest(up.PCA(), n_permutations=19)),
    }
    for name, program in rows.items():
        found[name] = _hospitals, program
    unseeded = partial(_hospitals, random_state=None)
    for name in ("pca krylov", "lda power", "cca power", "kernel fourier", "folds"):
        found[f"{name} without seed"] = unseeded, rows[name]
    found["pipeline"] = lambda: _hospitals(complete=False), _pipeline
    columns: dict[str, Program] = {
        "columns pca gram": _fit(up.PCA(2, svd_solver="gram")),
        "columns pca krylov": _fit(up.PCA(2, svd_solver="krylov")),
        "columns pca gossip": _fit(up.PCA(2, svd_solver="gossip", topology="ring")),
        "columns kernel": _fit(up.KernelPCA(2, gamma=1e-4)),
        "columns kernel parties": _fit(up.KernelPCA(2, gamma=1e-4, scores="parties")),
        "columns nystroem": _fit(
            up.KernelPCA(2, gamma=1e-4, approximation="nystroem", n_landmarks=20)
        ),
        "columns fourier": _fit(
            up.KernelPCA(2, gamma=1e-4, approximation="fourier", n_landmarks=20)
        ),
        "columns cca": _fit(up.CCA(2)),
        "columns cca krylov": _fit(up.CCA(2, solver="krylov")),
        "columns cca sumcor": _fit(up.CCA(1, criterion="sumcor", regularisation=0.5)),
        "columns vfedpca": _fit(up.VFedPCA(2, rounds=3)),
        "columns vfedpca warm": _fit(up.VFedPCA(2, rounds=3, warm_start=True)),
        "columns vfedpca aligned": _fit(up.VFedPCA(2, rounds=2, align_signs=True)),
        "columns vfedpca ring": _fit(up.VFedPCA(2, rounds=2, topology="ring")),
        "columns vfedakpca": _fit(up.VFedAKPCA(2, gamma=0.001)),
        "columns scaler": _fit(scaler, then=up.PCA(2)),
        "columns linear": _fit(up.LinearRegression(), ["thalach"]),
        "columns ridge": _fit(up.Ridge(3.0), ["thalach"]),
        "columns mmvfl": _fit(up.MMVFL(1.0, max_iter=5, tol=1e-6), "num"),
    }
    for name, program in columns.items():
        found[name] = _columns, program
    for kind in (up.PLSSVD, up.PLSCanonical, up.PLSRegression):
        for solver in ("direct", "krylov"):
            program = _fit(kind(2, solver=solver))
            name = f"columns {kind.__name__.lower()} {solver}"
            found[name] = lambda: _columns(2, None), program
    for model, ways in WAYS.items():
        for number, way in enumerate(ways):
            found[f"{model}-{number}"] = partial(_at, way), _way(model, way)
    found["lda wide"] = _wide, _fit(LDA(2, shrinkage=0.3), "num", then=scaler)
    found["lda wide auto"] = _wide, _fit(LDA(2, shrinkage="auto"), "num", then=scaler)
    for name, how in {
        "tied": {"apart": 1e-12},
        "close": {"apart": 1e-7},
        "of low rank": {"rank": 12},
    }.items():
        tables, by_columns = partial(_of_rows, **how), partial(_of_columns, **how)
        found[f"pca {name}"] = tables, _fit(up.PCA(4), then=scaler)
        found[f"pca all {name}"] = tables, _fit(up.PCA(whiten=True), then=scaler)
        krylov = up.PCA(2, svd_solver="krylov")
        found[f"krylov {name}"] = tables, _fit(krylov, then=scaler)
        found[f"columns krylov {name}"] = by_columns, _fit(krylov)
        gram = up.PCA(2, svd_solver="gram")
        found[f"columns gram {name}"] = by_columns, _fit(gram)
        found[f"columns cca {name}"] = (
            by_columns,
            _fit(up.CCA(2, solver="krylov", regularisation=0.1)),
        )
        kernel = up.KernelPCA(2, gamma=1e-3)
        found[f"columns kernel {name}"] = by_columns, _fit(kernel)
    return found


# ------------------------------------------------------------- the other machine


def elsewhere(
    transcripts: Mapping[str, Transcript],
    folder: Path,
    machine: Mapping[str, str],
) -> dict[str, str]:
    """Repeat fits in a new process; return what differs, by the name of the case."""
    asked, answered = folder / "transcripts", folder / "differences"
    asked.write_bytes(pickle.dumps(dict(transcripts)))
    tests = Path(__file__).resolve().parents[1]
    paths = [str(tests), str(tests / "support")]
    paths += filter(None, [os.environ.get("PYTHONPATH")])
    environment = {**os.environ, **machine, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-m", "support.replayed_fits", str(asked), str(answered)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return pickle.loads(answered.read_bytes())


def differences(transcripts: Mapping[str, Transcript]) -> Iterator[tuple[str, str]]:
    """Repeat each fit here; yield the names of those that differ, and how."""
    programs = cases()
    for name, transcript in transcripts.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                replayed(*programs[name], transcript)
        except (UnpooledError, Diverged) as wrong:
            yield name, f"{type(wrong).__name__}: {wrong}"


def main(arguments: Sequence[str]) -> None:
    """Repeat the fits in one file, and write what differs to another."""
    transcripts = pickle.loads(Path(arguments[0]).read_bytes())
    found = dict(differences(transcripts))
    Path(arguments[1]).write_bytes(pickle.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
