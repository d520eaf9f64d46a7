"""How studies end over a consortium: plan, run, resume and report from a shell.

Steps that give no rows stand beside the others, so that two studies, one by rows and
one by columns, have a model of nearly every family.
"""

import contextlib

import pandas as pd
import pyreadstat
import pytest
from numpy.testing import assert_allclose

import unpooled as up
from integration.matrix import RULES
from integration.rows import WRITERS
from integration.terminal import unpooled
from unpooled.data.heart_disease import load

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


def kept_files(silo, folder):
    """A silo's rows as its statistics program keeps them; return keys of its file."""
    frame = load()[silo].to_pandas().astype(float)
    if silo == "cleveland":
        path = folder / "rows.sav"
        # A code that the file declares missing.
        pyreadstat.write_sav(
            frame.assign(chol=frame["chol"].replace(0.0, 999.0)),
            path,
            missing_ranges={"chol": [999]},
            variable_value_labels={"sex": {0: "female", 1: "male"}},
        )
        return path, ""
    if silo == "hungary":
        path = folder / "rows.xpt"
        pyreadstat.write_xport(frame.rename(columns=str.upper), path)
        names = ", ".join(f'{name.upper()} = "{name}"' for name in frame)
        return path, f"missing = {{ chol = [0] }}\nrename = {{ {names} }}\n"
    path = folder / "rows.xlsx"
    with pd.ExcelWriter(path) as book:
        cells = frame.astype(object)
        cells.loc[frame["chol"] == 0.0, "chol"] = "n/d"
        cells.to_excel(book, sheet_name="patients", index=False)
        pd.DataFrame({"code": [0], "meaning": ["well"]}).to_excel(
            book, sheet_name="codes", index=False
        )
    return path, 'sheet = "patients"\nmissing = { chol = ["n/d"] }\n'


def test_silos_with_files_of_statistics_programs(consortium):
    path = consortium.folder / "kept.toml"
    path.write_text(
        '[study]\nname = "kept"\nlabel = "num"\ntimeout = 60\n'
        + "".join(f"[parties.{silo}]\n" for silo in consortium.silos)
        + '[[steps]]\nmodel = "SimpleImputer"\n'
    )
    with contextlib.ExitStack() as changes:
        for silo in consortium.silos:
            source, keys = kept_files(silo, consortium.kit(silo) / "local")
            own = (
                f'[silo]\nname = "{silo}"\nsource = "{source}"\nlabel = "num"\n'
                f'{keys}audit = "../state/kept.sqlite"\n'
            )
            changes.enter_context(consortium.changed(silo, "silo.toml", own))
            checked = ends_well("silo", "check", "--kit", consortium.kit(silo))
            assert ("1 = male" in checked) == (silo == "cleveland")
        kit = "--kit", consortium.coordinator
        ends_well("plan", path, *kit)
        ends_well("run", path, *kit, "--quiet")

    pipeline = up.load(path.parent / "runs" / "kept" / "pipeline.unpooled")
    pooled = pd.concat([load()[silo].to_pandas() for silo in consortium.silos])
    wanted = pooled.assign(chol=pooled["chol"].where(pooled["chol"] != 0.0))
    names = list(pipeline.feature_names_in_)
    assert_allclose(pipeline[-1].statistics_, wanted[names].mean(), rtol=1e-11)


@pytest.mark.parametrize("site", [False, True])
def test_silos_compare_a_constant_column_before_anything_leaves(consortium, site):
    path = consortium.folder / f"constant-{site}.toml"
    path.write_text(
        f'[study]\nname = "constant-{site}"\nlabel = "num"\ntimeout = 60\n'
        + "".join(f"[parties.{silo}]\n" for silo in consortium.silos)
        + '[[steps]]\nmodel = "LinearDiscriminantAnalysis"\n'
    )
    kit = "--kit", consortium.coordinator
    with contextlib.ExitStack() as changes:
        for number, silo in enumerate(consortium.silos):
            source = consortium.kit(silo) / "local" / "constant.csv"
            rows = load()[silo].to_pandas()[["age", "cp", "num"]].astype(float)
            rows.assign(unit=float(site and number)).to_csv(source, index=False)
            own = (
                f'[silo]\nname = "{silo}"\nsource = "{source}"\nlabel = "num"\n'
                f'audit = "../state/constant-{site}.sqlite"\n'
            )
            changes.enter_context(consortium.changed(silo, "silo.toml", own))
        planned = unpooled("plan", path, *kit)
        assert planned.returncode == (0 if site else 1), planned.stderr
        assert ("constant_columns" in planned.stdout) != site
        assert ("'unit'" in planned.stdout) != site
        assert "Constant in every silo" not in planned.stdout
        if site:
            ends_well("run", path, *kit, "--quiet")
