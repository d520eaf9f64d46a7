"""Three silos with logs on the disk, and the command at one of them."""

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from typer.testing import CliRunner

from unpooled import PCA, SimpleImputer, StandardScaler
from unpooled.cli import app
from unpooled.coordinator.channel import LocalChannel
from unpooled.coordinator.coordinator import Coordinator
from unpooled.federation.federation import Federation
from unpooled.federation.layout import Layout
from unpooled.models.files.model_file import save
from unpooled.party.setup.silo_file import SiloFile
from unpooled.party.setup.silo_init import SiloConfig, init_silo, pin

COLUMNS = ("age", "chol", "rate")
NAMES = ("berlin", "paris", "rome")
TEXT = """\
[study]
name = "heart"
label = "sick"
columns = ["age", "chol", "rate"]
[parties.berlin]
[parties.paris]
[parties.rome]
[[steps]]
model = "SimpleImputer"
[[steps]]
model = "StandardScaler"
[[steps]]
model = "PCA"
n_components = 2
"""


def rows(seed: int, n: int = 40) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3)) * [9, 40, 20] + [55, 240, 80]
    X[0, 1] = np.nan
    frame = pd.DataFrame(X.round(3), columns=list(COLUMNS))
    frame.insert(0, "id", [f"p{seed}-{k}" for k in range(n)])
    return frame.assign(sick=rng.integers(0, 2, n))


class Consortium:
    """Three silos' kits in a folder, and a coordinator in this process."""

    def __init__(self, folder, approval="none"):
        self.folder, self.parties = folder, {}
        publics = []
        for seed, name in enumerate(NAMES):
            (folder / name).mkdir()
            source = folder / name / "rows.csv"
            rows(seed).to_csv(source, index=False)
            charter = SiloConfig(
                name=name,
                source=str(source),
                label="sick",
                ids="id",
                columns=None,
                missing={},
                policy=None,
                approval=approval,
            )
            publics.append(init_silo(folder / name / "local", charter))
        for name in NAMES:
            pin(self.silo(name).roster, publics)
        self.start()

    def silo(self, name) -> SiloFile:
        return SiloFile.from_file(self.folder / name / "local" / "silo.toml")

    def start(self, follow=None):
        self.parties = {name: self.silo(name).party(follow) for name in NAMES}

    def coordinator(self, **more) -> Coordinator:
        channel = LocalChannel({n: p.handle for n, p in self.parties.items()})
        roster = self.silo("rome").pinned()
        return Coordinator(channel, roster, study="heart", **more)

    def announce(self, text=TEXT) -> set[str]:
        header = {"kind": "announce", "study": "heart", "text": text}
        replies = self.coordinator().send(header)
        return {reply.header["approval"] for reply in replies.values()}

    def fit(self, model=None, **more):
        coordinator = self.coordinator(**more)
        layout = Layout.of_rows(coordinator.parties, COLUMNS)
        federation = Federation(coordinator, layout=layout, named=True, label="sick")
        steps = (SimpleImputer(), StandardScaler(), PCA(2))
        return (model or make_pipeline(*steps)).fit(federation), federation

    def deliver(self, model, name="pipeline"):
        content = np.frombuffer(save(model, self.folder / "m").read_bytes(), np.uint8)
        header = {"kind": "deliver", "study": "heart", "name": name}
        self.coordinator().send(header, {"file": content})


@pytest.fixture
def heart(tmp_path):
    return Consortium(tmp_path)


@pytest.fixture
def asked(tmp_path):
    return Consortium(tmp_path, "each-study")


def command(heart, *arguments, code=0, silo="rome", columns="140", **options):
    kit = ["--kit", str(heart.folder / silo)]
    done = CliRunner(env={"COLUMNS": columns}).invoke(
        app, ["silo", *map(str, arguments), *kit], **options
    )
    if done.exit_code != code:
        raise AssertionError(done.output) from done.exception
    return done.output if options.get("whole") else " ".join(done.output.split())
