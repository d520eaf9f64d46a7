"""One small study for every estimator of the library.

Each is run over a consortium and in one process, and both must give the same models
and the same ledger. A model of the catalogue without a line in `CASES` is fitted with
its defaults on imputed rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from integration.rows import SILOS, WRITERS
from unpooled.models.files.catalogue import estimators
from unpooled.study import Study

# A silo's rules for each kind of data; the tests of policies are elsewhere.
RULES = {
    # Some cases have other silos than the rest, and they follow each other.
    # The gradients of a personalized PCA are taken for disclosures.
    "rows": "min_rows = 10\nallow_roster_change = true\nmax_released_share = 100.0\n"
    "allow_disclosed = true\n",
    # Many studies ask about the same hundred people.
    "columns": "min_rows = 10\nmin_rows_per_class = 1\nallow_disclosed = true\n"
    "max_released_share = 100.0\n"
    "allow_roster_change = true\n"
    "allow_row_level = true\nmin_parties = 2\n",
}


@dataclass(frozen=True)
class Case:
    """A study with one model of interest.

    Attributes
    ----------
    parameters : mapping
        Of the model's constructor, as a study file has them.
    before : tuple of str
        Models fitted before it, with their defaults (`COARSE` ones): heart disease has
        missing cells.
    partition : {"rows", "columns"}
        What the silos have; see rows.py.
    head : str
        More lines of [study], such as "random_state = 0".
    y : tuple of str
        Columns of the second view, for models of two.
    silos : tuple of str
        Who takes part.
    categorical : tuple of str
        Columns of categories, in the silos' files and in the study.
    others : bool
        The silos have other people: they impute a table in one way only.
    """

    parameters: Mapping[str, Any] = field(default_factory=dict)
    before: tuple[str, ...] = ()
    partition: str = "rows"
    head: str = ""
    y: tuple[str, ...] = ()
    silos: tuple[str, ...] = SILOS
    categorical: tuple[str, ...] = ()
    others: bool = False

    @property
    def data(self) -> str:
        """What the silos have, a key of `WRITERS`."""
        return f"other {self.partition}" if self.others else self.partition


IMPUTED = ("SimpleImputer",)
# Secure comparisons take seconds for each digit of the exponents.
COARSE = {"PowerTransformer": ("tol = 0.05",)}
# What is measured on effort, against the rest.
SIGNS = ("thalach", "exang", "oldpeak")

KINDS = ("cp", "restecg", "sex")
CODED = {"head": f"columns = {list(KINDS)}", "categorical": KINDS}
MIXED = {"head": f"columns = {['age', *KINDS]}", "categorical": KINDS}

# By the model's name; for a second case of a model add "-what", as in "PCA-krylov".
CASES: dict[str, Case] = {
    "CCA": Case({"n_components": 2}, IMPUTED, y=SIGNS),
    "CCA-columns": Case({"n_components": 2}, partition="columns"),
    "CCA-krylov": Case(
        {"n_components": 2, "solver": "krylov", "random_state": 0}, partition="columns"
    ),
    "CCA-sumcor": Case(
        {
            "n_components": 1,
            "criterion": "sumcor",
            "regularisation": 0.5,
            "random_state": 0,
        },
        partition="columns",
    ),
    "CCA-dcca-power": Case(
        {"n_components": 1, "solver": "dcca-power", "random_state": 0},
        IMPUTED,
        y=SIGNS,
    ),
    "Correlation": Case({}, IMPUTED),
    # Of columns whose people no other case asks about.
    "Correlation-columns": Case(partition="columns", others=True),
    "ColumnTransformer": Case(
        {
            "transformers": [
                {"model": "StandardScaler", "columns": "numeric"},
                {"model": "OneHotEncoder", "columns": "categorical"},
            ]
        },
        **MIXED,
    ),
    "ColumnTransformer-columns": Case(
        {
            "transformers": [
                {"model": "StandardScaler", "columns": "numeric"},
                {"model": "OneHotEncoder", "columns": ["cp", "thal"]},
                {"model": "OrdinalEncoder", "columns": ["restecg"]},
            ]
        },
        partition="columns",
        categorical=("cp", "restecg", "thal"),
    ),
    "Describe": Case({"quartiles": False}, **MIXED),
    "Describe-per-silo": Case({"per_silo": True, "decimals": 0}, **MIXED),
    "DerivedColumns": Case({"columns": {"log_age": "log(age)"}}, IMPUTED),
    "FAMD": Case(**MIXED),
    "FAMD-columns": Case(
        {"disclose": ("category_coordinates_",)},
        partition="columns",
        categorical=("cp", "restecg", "thal"),
    ),
    "GLM": Case({"family": "gamma"}, IMPUTED, y=("age",)),
    "MetaAnalysis": Case({}, IMPUTED, y=("thalach",)),
    "MCA": Case(**CODED),
    # All columns that the silos have.
    "MCA-columns": Case(
        partition="columns",
        categorical=(
            *("age", "sex", "cp", "trestbps", "chol", "fbs", "restecg", "thalach"),
            *("exang", "oldpeak", "slope", "ca", "thal"),
        ),
    ),
    "OneHotEncoder": Case({"drop": "first"}, **CODED),
    # Each silo names its own columns of categories.
    "OneHotEncoder-columns": Case(
        partition="columns", categorical=("cp", "restecg", "thal")
    ),
    "OrdinalEncoder": Case(**CODED),
    "GeneralizedEigen": Case(
        {"n_components": 2, "pair": "pairs.local_canonical", "public": {"first": 6}},
        IMPUTED,
    ),
    "Heterogeneity": Case({"n_components": 3}, IMPUTED),
    "Heterogeneity-permutations": Case(
        {"permutations": 19, "random_state": 0}, IMPUTED, head="random_state = 0"
    ),
    "LinearRegression": Case({"cov_type": "HC1"}, IMPUTED, y=("thalach",)),
    "LogisticRegression": Case({"C": 1.0}, (*IMPUTED, "StandardScaler")),
    "KernelPCA": Case(
        {"n_components": 2, "approximation": "fourier", "n_landmarks": 20},
        IMPUTED,
        head="random_state = 0",
    ),
    "KernelPCA-columns": Case({"n_components": 3, "gamma": 1e-4}, partition="columns"),
    "KernelPCA-parties": Case(
        {"n_components": 2, "kernel": "poly", "gamma": 1e-4, "scores": "parties"},
        partition="columns",
    ),
    # What silos keep, and what a study asks of it.
    "MMVFL-asked": Case(
        {
            "max_iter": 2,
            "tol": 0.0,
            "select": 40,
            "score": True,
            "disclose": ("feature_importances_",),
        },
        partition="columns",
    ),
    "Ridge-site-effects": Case({"site_effects": True}, IMPUTED, y=("thalach",)),
    "LinearRegression-columns": Case(
        {"disclose": ("coef_",)}, partition="columns", y=("thalach",)
    ),
    "Ridge-columns": Case({"alpha": 3.0}, partition="columns", y=("thalach",)),
    "PCA-asked": Case(
        {"n_components": 2, "scores": "parties", "disclose": ("components_",)},
        partition="columns",
    ),
    "PLSCanonical": Case({"n_components": 2}, IMPUTED, y=SIGNS),
    "PLSCanonical-columns": Case(
        {"n_components": 2}, partition="columns", silos=SILOS[:2]
    ),
    "PLSRegression": Case({"n_components": 2}, IMPUTED, y=SIGNS),
    "PLSRegression-columns": Case(
        {"n_components": 2}, partition="columns", silos=SILOS[:2]
    ),
    "PLSSVD": Case({"n_components": 2}, IMPUTED, y=SIGNS),
    "LinearDiscriminantAnalysis-dgep-eigh": Case(
        {"n_components": 1, "solver": "dgep-eigh"}, IMPUTED
    ),
    "LinearDiscriminantAnalysis": Case({"n_components": 2}, IMPUTED),
    "MMVFL": Case({"beta": 1.0, "max_iter": 3, "tol": 0.0}, (), "columns"),
    "PCA": Case({"n_components": 3}, IMPUTED),
    "PCA-errors": Case(
        {"n_components": 2, "standard_errors": True, "outliers": True}, IMPUTED
    ),
    "PCA-components": Case({"n_components": 2, "open": "components"}, IMPUTED),
    # Rounded at random, and exact after the round that ends it: see `compression`.
    "PCA-bits": Case({"n_components": 3, "bits": 16}, IMPUTED),
    "PCA-krylov": Case(
        {"n_components": 2, "svd_solver": "krylov", "random_state": 0}, IMPUTED
    ),
    "PCA-gossip": Case(
        {"n_components": 2, "svd_solver": "gossip", "topology": "ring"},
        partition="columns",
        head="random_state = 0",
    ),
    # Coarse, to save time: finer ones differ in the number of batches only.
    "PowerTransformer": Case({"tol": 0.05}),
    "PowerTransformer-summed": Case({"comparison": "summed"}),
    "PCA-power": Case({"n_components": 5}, (*IMPUTED, "PowerTransformer")),
    "Quantiles": Case({}, IMPUTED),
    "Quantiles-columns": Case({"disclose": ("quantiles_",)}, partition="columns"),
    "Ridge": Case({"alpha": 3.0}, IMPUTED, y=("thalach",)),
    "RobustScaler": Case({}, IMPUTED),
    "RobustScaler-columns": Case(partition="columns"),
    "IterativeImputer": Case({"max_iter": 3}, others=True),
    "SimpleImputer": Case(),
    "StandardScaler": Case({}, IMPUTED),
    "StandardScaler-columns": Case(partition="columns"),
    "VFedAKPCA": Case({"gamma": 0.001}, partition="columns"),
    "VFedPCA-ring": Case(
        {"n_components": 2, "rounds": 2, "topology": "ring"},
        partition="columns",
        head="random_state = 0",
    ),
    "VFedPCA": Case(
        {"n_components": 2, "rounds": 2, "align_signs": True},
        partition="columns",
        head="random_state = 0",
    ),
}


CASES |= {
    name: Case({}, IMPUTED)
    for name in estimators()
    if name not in {case.partition("-")[0] for case in CASES}
}


def model_of(name: str) -> str:
    return name.partition("-")[0]


# The first case of each model and partition.
FIRST = tuple(
    {
        (model_of(name), case.partition): name
        for name, case in reversed(CASES.items())
        if name != "PCA-power"
    }.values()
)


def text_of(name: str, sources: Mapping[str, Path] | None = None) -> str:
    """Return a case's study file; with sources it is one that runs in one process."""
    case = CASES[name]
    lines = [
        "[study]",
        f'name = "case-{name}"',
        f'partition = "{case.partition}"',
        'label = "num"',
        "timeout = 60",
        case.head,
        *([f"categorical = {_toml(case.categorical)}"] if case.categorical else []),
        *([] if sources is None else ["[policy]", RULES[case.partition]]),
    ]
    for silo in case.silos:
        lines.append(f"[parties.{silo}]")
        lines += [] if sources is None else [f'source = "{sources[silo]}"']
    for model in case.before:
        lines += ["[[steps]]", f'model = "{model}"', *COARSE.get(model, ())]
    lines += ["[[steps]]", f'model = "{model_of(name)}"']
    lines += [f"y = {_toml(case.y)}"] if case.y else []
    lines += [f"{key} = {_toml(value)}" for key, value in case.parameters.items()]
    return "\n".join([*lines, "[outputs]", "report = false", ""])


def in_one_process(name: str, folder: Path) -> Any:
    """Run a case in this process, with silos that follow; return its `Run`."""
    folder.mkdir(parents=True, exist_ok=True)
    write = WRITERS[CASES[name].data]
    text = text_of(name, {silo: write(silo, folder) for silo in SILOS})
    return Study.from_text(folder / f"{name}.toml", text).run(follow=True)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        inside = [f"{key} = {_toml(item)}" for key, item in value.items()]
        return f"{{ {', '.join(inside)} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return f'"{value}"' if isinstance(value, str) else repr(value)
