"""The server's end of a study, with silos behind their real doors in this process."""

import numpy as np
import pytest

from integration.matrix import in_one_process
from integration.rows import SILOS
from server_end import ServerEnd
from unpooled.errors import StudyError
from unpooled.models.files.model_file import load
from unpooled.party.setup.silo_file import SiloFile
from unpooled.study.job_messages import PART, News, error_of, plan_of
from unpooled.study.server_job import coordinate

STEPS = """
[[steps]]
model = "SimpleImputer"
[[steps]]
model = "PCA"
n_components = 3
[outputs]
report = false
"""


def study(name="case-PCA", steps=STEPS, head='label = "num"', silos=SILOS):
    parties = "\n".join(f"[parties.{silo}]" for silo in silos)
    return f'[study]\nname = "{name}"\n{head}\n{parties}\n{steps}'


@pytest.fixture
def server(tmp_path):
    return ServerEnd(tmp_path)


@pytest.fixture
def silos(server):
    return server.silos


@pytest.fixture
def kit(server):
    return server.kit


@pytest.fixture
def asks(server):
    return server.ask


def test_a_run_gives_what_one_process_gives(asks, tmp_path):
    outcome, place = asks("run", study())

    assert outcome["error"] is None
    alone = in_one_process("PCA", tmp_path / "alone").models["pca"]
    fitted = dict(place.models())["pca"]
    np.testing.assert_allclose(fitted.components_, alone.components_, rtol=1e-12)
    assert place.ledger.verify()
    assert {party for party, _, _ in outcome["events"]} == set(SILOS)
    planned = [line.name for line in plan_of(outcome["plan"]).releases]
    assert planned == [line.name for line in place.ledger]


@pytest.mark.slow
def test_the_models_are_delivered_to_every_silo(asks, silos):
    asks("run", study())

    for silo, local in silos.items():
        path = local.parent / "state" / "models" / "case-PCA" / "pipeline.unpooled"
        assert load(path)[-1].n_components == 3, silo


@pytest.mark.slow
def test_a_plan_is_told_and_asks_for_no_rows(asks, silos, kit):
    outcome, place = asks("plan", study())

    assert outcome["error"] is None
    assert place is None
    assert not plan_of(outcome["plan"]).refusals
    assert not (kit / "studies").exists()
    journal = SiloFile.from_file(silos["va"] / "silo.toml").party()
    assert not journal.studies


@pytest.mark.slow
def test_a_run_that_is_there_is_not_overwritten(asks):
    asks("run", study())

    outcome, _ = asks("run", study())

    reason = error_of(outcome["error"])
    assert isinstance(reason, StudyError)
    assert "has a run of a study case-PCA already" in str(reason)


@pytest.mark.slow
def test_a_job_that_left_nothing_is_begun_by_resume(asks):
    outcome, place = asks("resume", study())

    assert outcome["error"] is None
    assert place.state.done


@pytest.mark.slow
def test_half_a_folder_of_a_job_that_died_is_no_obstacle(asks, kit):
    (kit / "studies" / "case-PCA" / "models").mkdir(parents=True)

    outcome, place = asks("resume", study())

    assert outcome["error"] is None
    assert place.state.done


@pytest.mark.slow
def test_a_done_run_is_told_again(asks):
    _, first = asks("run", study())
    _, again = asks("resume", study())

    assert [line.hash for line in again.ledger] == [line.hash for line in first.ledger]


@pytest.mark.slow
def test_a_silo_where_people_decide_stops_a_run_and_not_a_plan(asks, silos):
    path = silos["va"] / "silo.toml"
    path.write_text(path.read_text().replace('"none"', '"each-study"'))

    assert asks("plan", study())[0]["error"] is None
    reason = error_of(asks("run", study())[0]["error"])

    assert "va refused the study case-PCA: approval" in str(reason)


@pytest.mark.slow
def test_a_failing_study_sends_its_ledger_back(asks, silos):
    # Enough rows for the means of each column, too few for a table of p columns.
    (silos["va"] / "policy.toml").write_text("min_rows = 10\nmax_leverage = 0.0001\n")

    outcome, place = asks("run", study())

    reason = error_of(outcome["error"])
    assert "max_leverage" in str(reason)
    assert place is None or place.ledger.verify()


@pytest.mark.thinned(1)
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("not TOML [", "study.toml"),
        (study(head='label = "nmu"'), "label of study case-PCA is 'nmu'"),
        (study(head='label = "num"\ncolumns = ["agee"]'), "no columns agee"),
        (study(silos=("cleveland", "nowhere", "va")), "does not have nowhere"),
        (study(steps='[[steps]]\nmodel = "os.system"\n'), "os.system"),
    ],
    ids=["toml", "label", "columns", "roster", "model"],
)
def test_what_is_wrong_is_told(asks, text, says):
    outcome, place = asks("run", text)

    assert says in outcome["error"]["text"]
    assert place is None


def test_an_unforeseen_failure_tells_nothing(kit, tmp_path):
    def channel(parties, timeout):
        raise KeyError("Mrs Smith, at /srv/rows")

    results = tmp_path / "results"
    asked = {"do": "run", "file": "study.toml", "text": study()}
    coordinate(asked, channel, kit=kit, results=results, news=News())

    outcome = (results / "outcome.json").read_text()
    assert "server's log" in outcome
    assert "Smith" not in outcome
    assert "/srv" not in outcome


def test_news_are_told_from_where_the_asker_is():
    news = News()
    for number in range(3):
        news.arrived("va", "pca.local_scatter", number)

    told = news.answer({"since": 1})

    assert told["first"] == 1
    assert [number for _, _, number in told["events"]] == [1, 2]
    assert told["plan"] is None
    assert news.answer("anything")["first"] == 0
    assert news.answer({"since": -5})["first"] == 0


def test_results_are_handed_over_in_parts(tmp_path):
    import base64
    import io
    import zipfile

    content = np.random.default_rng(0).bytes(PART + 1000)
    (tmp_path / "outcome.json").write_bytes(content)
    news = News()
    news.offer(tmp_path, 0.0)

    size, got = news.answer({})["size"], b""
    while len(got) < size:
        got += base64.b64decode(news.answer({"part": len(got)})["part"])

    with zipfile.ZipFile(io.BytesIO(got)) as archive:
        assert archive.read("outcome.json") == content
    assert news.answer({"part": size})["part"] == ""


@pytest.mark.slow
def test_a_private_study_spends_what_each_silo_allows(asks, silos):
    pytest.importorskip("opendp")
    for local in silos.values():
        rules = "min_rows = 10\nrequire_privacy = true\nprivacy_budget = 12.0\n"
        (local / "policy.toml").write_text(rules)
    head = 'label = "num"\ncolumns = ["age", "sex", "cp"]'
    private = (
        '[[steps]]\nmodel = "PCA"\nn_components = 1\nprivacy = { epsilon = 10.0, '
        "delta = 1e-5, row_norm = 40.0, centre = [50.0, 0.5, 3.0] }\n"
    )

    outcome, place = asks("run", study("first", private, head))
    assert outcome["error"] is None
    ((_, model),) = place.models()
    assert model.privacy_["epsilon"] == 10.0
    # Every party was opened anew, as in another job: the log is what knows.
    outcome, _ = asks("run", study("second", private, head))
    assert outcome["error"]["rule"] == "privacy_budget"
    small = private.replace("10.0,", "2.0,")
    assert asks("run", study("third", small, head))[0]["error"] is None
