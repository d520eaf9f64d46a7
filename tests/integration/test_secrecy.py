"""However a silo fails, the coordinator learns a rule's name, and nothing of the silo.

Everything that server and coordinator hold afterwards is searched: their logs, the job
store, the results, what the commands said. That includes the faults of test_faults.py,
which runs before this file in the same consortium.
"""

import io
import shutil
import zipfile

import polars
import pytest

import unpooled as up
from integration.consortium import HEART, study_text
from integration.mishaps import as_soon_as, entries, within
from integration.rows import SILOS
from unpooled.errors import UnpooledError

CELL, FOLDER, NUMBER = "Mrs-Smith-4711", "ward-seven", "987654.125"


def fails(consortium, name, steps=HEART):
    """Run a study that must fail; return what its submitter is told."""
    path = consortium.folder / f"{name}.toml"
    text = study_text(name, steps).replace("timeout = 30", "timeout = 15")
    path.write_text(text + "[outputs]\nreport = false\n")
    with pytest.raises(UnpooledError) as caught:
        within(240.0, up.Study.from_file(path).run, kit=consortium.coordinator)
    return str(caught.value)


def of_silo(silo, source):
    return f'[silo]\nname = "{silo}"\nsource = "{source}"\nlabel = "num"\n'


@pytest.fixture
def ward(consortium):
    """A folder of va's with a telling name, and va's rows to be spoilt in it."""
    folder = consortium.kit("va") / FOLDER
    folder.mkdir()
    yield folder, polars.read_csv(consortium.kit("va") / "local" / "va-rows.csv")
    shutil.rmtree(folder)


def test_a_cell_that_is_no_number(consortium, ward):
    folder, rows = ward
    age = [CELL, *map(str, rows["age"].to_list()[1:])]
    rows.with_columns(polars.Series("age", age)).write_csv(folder / "rows.csv")
    with consortium.changed("va", "silo.toml", of_silo("va", folder / "rows.csv")):
        told = fails(consortium, "spoilt-cell")

    assert "va" in told
    assert "own log" in told
    assert_nothing_told(consortium, told)
    # The silo itself is told what is wrong, and where.
    assert FOLDER in consortium.log("va") + logs_of(consortium.kit("va"))


def test_rows_that_vanish_in_the_middle(consortium, ward):
    folder, rows = ward
    source = folder / "rows.parquet"
    rows.write_parquet(source)
    with (
        consortium.changed("va", "silo.toml", of_silo("va", source)),
        as_soon_as(lambda: entries(consortium, "va", "vanished") >= 1, source.unlink),
    ):
        told = fails(consortium, "vanished")

    assert "va" in told
    assert_nothing_told(consortium, told)
    assert FOLDER in consortium.log("va") + logs_of(consortium.kit("va"))


def test_a_rule_says_no_about_a_number_that_stands_out(consortium, ward):
    folder, rows = ward
    chol = [float(NUMBER), *map(float, rows["chol"].fill_null(200).to_list()[1:])]
    rows.with_columns(polars.Series("chol", chol)).write_csv(folder / "rows.csv")
    rules = "min_rows = 10\nmax_feature_ratio = 0.001\n"
    with (
        consortium.changed("va", "silo.toml", of_silo("va", folder / "rows.csv")),
        consortium.changed("va", "policy.toml", rules),
    ):
        told = fails(consortium, "stands-out")

    assert "max_feature_ratio" in told
    assert_nothing_told(consortium, told)


def logs_of(kit):
    return "".join(p.read_text("utf-8", "replace") for p in kit.rglob("*log*.txt"))


def assert_nothing_told(consortium, told):
    kits = [str(consortium.kit(silo)) for silo in SILOS]
    secrets = [CELL, FOLDER, NUMBER, *kits]
    # Lines of a traceback of the code that only silos run.
    secrets += ["unpooled/party/runtime.py", "unpooled/party/session.py"]
    assert not [secret for secret in secrets if secret in told]
    found = [
        (secret, where)
        for where, content in held_by_coordinator(consortium)
        for secret in secrets
        if secret.encode() in content
    ]
    assert not found


def held_by_coordinator(consortium):
    """Yield (name, bytes) of every file of server and coordinator, archives opened."""
    folders = [consortium.server, consortium.coordinator, consortium.folder / "runs"]
    paths = [path for folder in folders for path in folder.rglob("*")]
    for path in [*paths, consortium.folder / "server.log"]:
        if path.is_file():
            yield from opened(str(path), path.read_bytes())


def opened(name, content):
    yield name, content
    if content.startswith(b"PK") and zipfile.is_zipfile(io.BytesIO(content)):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for member in archive.namelist():
                yield from opened(f"{name}/{member}", archive.read(member))
