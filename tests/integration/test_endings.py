"""How studies end over a consortium: plan, run, resume and report from a shell.

Steps that give no rows stand beside the others, so that two studies, one by rows and
one by columns, have a model of nearly every family.
"""

import contextlib

import pytest

from integration.matrix import RULES
from integration.rows import WRITERS
from integration.terminal import unpooled

FEW = "n_components = 2"
# Of heart disease by rows, and of complete columns about the same people.
STUDIES = {
    "rows": {
        "SimpleImputer": "",
        "Heterogeneity": FEW,
        "StandardScaler": "",
        "PowerTransformer": 'comparison = "summed"',
        "PCA": "n_components = 5",
        "PLSSVD": f'{FEW}\ny = ["pca3", "pca4"]',
        "LinearDiscriminantAnalysis": "",
    },
    "columns": {
        "SimpleImputer": "",
        "StandardScaler": "",
        "PCA": FEW,
        "KernelPCA": f"{FEW}\ngamma = 0.01",
        "CCA": FEW,
        "VFedPCA": f"{FEW}\nrounds = 2",
        "MMVFL": "beta = 1.0\nmax_iter = 2\ntol = 0.0",
    },
}


@pytest.fixture(params=STUDIES)
def study(consortium, request):
    """A study's file, while the silos have the rows and the rules for it."""
    partition = request.param
    lines = [
        f'[study]\nname = "ends-{partition}"\npartition = "{partition}"\nlabel = "num"',
        "random_state = 0\ntimeout = 60\naligned = true",
        *(f"[parties.{silo}]" for silo in consortium.silos),
    ]
    for model, keys in STUDIES[partition].items():
        lines.append(f'[[steps]]\nmodel = "{model}"\n{keys}')
    path = consortium.folder / f"ends-{partition}.toml"
    path.write_text("\n".join(lines) + "\n")
    with contextlib.ExitStack() as changes:
        for silo in consortium.silos:
            source = WRITERS[partition](silo, consortium.kit(silo) / "local")
            own = (
                f'[silo]\nname = "{silo}"\nsource = "{source}"\nlabel = "num"\n'
                f'partition = "{partition}"\naudit = "../state/ends.sqlite"\n'
            )
            changes.enter_context(consortium.changed(silo, "silo.toml", own))
            rules = RULES[partition]
            changes.enter_context(consortium.changed(silo, "policy.toml", rules))
        yield path


def ends_well(*command):
    ended = unpooled(*command)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    return ended.stdout


def test_every_command_ends_well(consortium, study):
    kit = "--kit", consortium.coordinator
    folder = study.parent / "runs" / study.stem

    assert "Nothing has left any silo" in ends_well("plan", study, *kit)
    ran = ends_well("run", study, *kit, "--quiet")
    resumed = ends_well("resume", study, *kit, "--quiet")
    report = ends_well("report", folder)

    assert "is done" in ran
    assert "is done" in resumed
    assert report.strip().endswith("report.html")
    models = [path.stem.partition("-")[2] for path in (folder / "models").iterdir()]
    steps = STUDIES[study.stem.removeprefix("ends-")]
    assert sorted(models) == sorted(model.lower() for model in steps)
