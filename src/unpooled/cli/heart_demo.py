"""``unpooled demo``: PCA of real data of four hospitals, without pooling a row."""

import shutil
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.text import Text

from unpooled.arrays import Array, Float
from unpooled.cli.progress_display import ProgressDisplay
from unpooled.cli.results_tables import exhibits
from unpooled.cli.table_style import part, table
from unpooled.cli.tables import left_table
from unpooled.cli.terminal import printable
from unpooled.data import heart_disease
from unpooled.errors import StudyError
from unpooled.federation.federation import Federation
from unpooled.federation.local import simulate
from unpooled.federation.planning.dry_run import plan
from unpooled.models.pca.pca import PCA
from unpooled.models.preprocessing.imputer import SimpleImputer
from unpooled.models.preprocessing.scaler import StandardScaler
from unpooled.party.rules.policy import Policy
from unpooled.report.html import report
from unpooled.report.text.policies import DESCRIPTIONS, value_text
from unpooled.results.formats import byte_size, counted

_PLACES = {
    "cleveland": "Cleveland Clinic Foundation",
    "hungary": "Hungarian Institute of Cardiology, Budapest",
    "switzerland": "University Hospitals, Zurich and Basel",
    "va": "V.A. Medical Center, Long Beach",
}
_STUDY = Path(__file__).with_name("heart.toml")


def demo(console: Console, folder: Path, *, quiet: bool = False) -> Path:
    """Fit, compare with scikit-learn on pooled rows, and return the report's path."""
    from sklearn.pipeline import make_pipeline

    folder.mkdir(parents=True, exist_ok=True)
    hospitals, policy = heart_disease.load(), Policy()
    console.print(
        Text("unpooled", "bold")
        + Text("  the answers of pooled data, from data that was never pooled", "dim")
    )
    _show_silos(console, hospitals)
    _show_rules(console, policy)
    federation = simulate(
        hospitals, label=heart_disease.LABEL, policy=policy, study="heart disease"
    )
    pipeline = make_pipeline(SimpleImputer(), StandardScaler(), PCA(5))
    started = time.perf_counter()
    _fit(console, pipeline, federation, quiet)
    seconds = time.perf_counter() - started
    part(
        console,
        "Results",
        "Principal components of 13 columns over all patients.",
        *exhibits(pipeline[-1].summary()),
    )
    _show_agreement(console, pipeline, hospitals)
    _show_releases(console, federation, seconds)
    path = report(pipeline, federation, folder / "report.html")
    part(console, "The report", "All of this as a page, for a data-protection officer.")
    # Without line breaks, so that the path can be copied.
    console.print(Text(printable(str(path))), soft_wrap=True)
    return path


def write_study(folder: Path) -> Path:
    """Write the study file of the demo and the hospitals' data; return the file."""
    target = folder / "study.toml"
    if target.exists():
        raise StudyError(f"{target} exists; name another folder.")
    (folder / "data").mkdir(parents=True, exist_ok=True)
    for path in heart_disease.paths().values():
        shutil.copyfile(path, folder / "data" / path.name)
    shutil.copyfile(_STUDY, target)
    return target


def write_raw(folder: Path) -> list[Path]:
    """Write the hospitals' data as they might export them; return the files."""
    if any((folder / f"{name}.csv").exists() for name in heart_disease.paths()):
        raise StudyError(f"{folder} has such files; name another folder.")
    return list(heart_disease.write_raw(folder).values())


def _fit(console: Console, pipeline: Any, federation: Federation, quiet: bool) -> None:
    part(console, "Fitting", "Impute missing cells, standardise, compute 5 components.")
    console.print()
    coordinator: Any = federation.coordinator
    with ProgressDisplay(console, quiet=quiet) as display:
        display.planned(plan(pipeline, federation))
        coordinator.listeners.append(display.listener)
        pipeline.fit(federation)


def _show_silos(console: Console, hospitals: Mapping[str, Any]) -> None:
    right = ("patients", "missing cells")
    grid = table("silo", "hospital", *right, right=right)
    for silo, rows in hospitals.items():
        missing = np.isnan(_rows(rows)).mean()
        grid.add_row(silo, _PLACES[silo], str(rows.num_rows), f"{missing:.0%}")
    part(
        console,
        "Who takes part",
        "The demo has the data of all four hospitals, so it can count patients. In a "
        "study no silo's count leaves it.",
        grid,
    )


def _show_rules(console: Console, policy: Policy) -> None:
    grid = table("rule", "value", right=("value",))
    for key, value in policy.as_dict().items():
        # None stands for all steps or all columns, as the sentence below says.
        if value is not None:
            grid.add_row(DESCRIPTIONS[key], value_text(key, value))
    part(
        console,
        "Each silo's rules",
        "The defaults, which a silo checks itself before anything leaves it. All steps "
        "of the library may run, on all columns, within these rules:",
        grid,
    )


def _show_agreement(
    console: Console, pipeline: Any, hospitals: Mapping[str, Any]
) -> None:
    pooled = np.concatenate([_rows(rows) for rows in hospitals.values()])
    twin = _pooled_twin(pooled)
    ours, theirs = pipeline[-1], twin[-1]
    with warnings.catch_warnings():
        # The pipeline was fitted with names of columns, and this array has none.
        warnings.simplefilter("ignore", UserWarning)
        rows = pipeline.transform(pooled)
    differences = {
        "components_": ours.components_ - theirs.components_,
        "explained_variance_": ours.explained_variance_ - theirs.explained_variance_,
        f"transform of {len(pooled)} rows": rows - twin.transform(pooled),
    }
    grid = table("quantity", "largest difference", right=("largest difference",))
    for name, difference in differences.items():
        grid.add_row(name, f"{np.abs(difference).max():.1e}")
    part(
        console,
        "Agreement with scikit-learn on pooled rows",
        "Computed now. This takes all data in one place, which only a demo has.",
        grid,
    )


def _pooled_twin(pooled: Float[Array, "N p"]) -> Any:
    from sklearn import decomposition, impute, pipeline, preprocessing

    return pipeline.make_pipeline(
        impute.SimpleImputer(),
        preprocessing.StandardScaler(),
        decomposition.PCA(5, svd_solver="full"),
    ).fit(pooled)


def _show_releases(console: Console, federation: Federation, seconds: float) -> None:
    ledger, parties = federation.ledger, federation.parties
    messages = sum(record.bytes_out for record in federation.rounds)
    ledger.verify()
    part(
        console,
        "What left each silo",
        f"Masked sums: every number was opened only as a total over all "
        f"{counted(len(parties), 'silo')}.",
        left_table(ledger),
        Text(
            f"With keys, signatures and headers each silo sent {byte_size(messages)}, "
            f"in {seconds:.1f} s. The ledger's {len(ledger)} lines form an unbroken "
            f"hash chain, which every silo signed.",
            "dim",
        ),
    )


def _rows(hospital: Any) -> Float[Array, "n p"]:
    """Return a hospital's features as an array, with NaN for missing cells."""
    columns = [hospital[name].to_numpy() for name in heart_disease.FEATURES]
    return np.column_stack(columns).astype(float)
