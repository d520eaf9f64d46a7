"""The server's end of studies, with silos behind their real doors in this process."""

from pathlib import Path

import pyarrow.parquet

from integration.rows import SILOS, write_rows
from unpooled.coordinator.channel import LocalChannel
from unpooled.federation.following import FollowedPrograms
from unpooled.party.setup.silo_file import SiloFile
from unpooled.party.setup.silo_init import SiloConfig, init_silo, pin
from unpooled.protocol.message import decode
from unpooled.study.job_messages import News, read_results
from unpooled.study.run_folder import RunFolder
from unpooled.study.server_job import coordinate


class ServerEnd:
    """A server's kit, and silos as `unpooled silo init` and `pin` make them.

    Attributes
    ----------
    silos : dict of str to Path
        Each silo's folder ``local``.
    kit : Path
        The server's.
    """

    def __init__(
        self,
        folder: Path,
        names=SILOS,
        write=write_rows,
        *,
        label: str | None = "num",
        partition="rows",
        rules="min_rows = 10\n",
        categorical=(),
    ) -> None:
        self.folder, self._asked = folder, 0
        self._rounds: int | None = None
        self.silos = {silo: folder / silo / "local" for silo in names}
        for silo, local in self.silos.items():
            source = str(write(silo, folder))
            init_silo(local, SiloConfig(silo, source, label=label, partition=partition))
            (local / "policy.toml").write_text(rules)
            coded = list(categorical)
            if partition == "columns" and coded:
                # Each silo names its own.
                known = pyarrow.parquet.read_schema(source).names
                coded = [name for name in coded if name in known]
            if coded:
                with (local / "silo.toml").open("a") as file:
                    file.write(f"categorical = {coded}\n")
        self.kit = folder / "server"
        (self.kit / "local").mkdir(parents=True)
        lines = [local / f"{silo}.public" for silo, local in self.silos.items()]
        for local in (*self.silos.values(), self.kit / "local"):
            pin(local / "roster.toml", lines)

    def ask(self, do, text, file="study.toml", **more):
        """Ask for something; return what the submitter gets: an outcome, a folder.

        Every party is opened anew from its silo's files, as in a job of its own.
        """
        self._asked += 1
        results = self.folder / f"results-{self._asked}"
        asked = {"do": do, "file": file, "text": text, **more}
        coordinate(asked, self._channel, kit=self.kit, results=results, news=News())
        return read_results(results / "outcome.json")

    def done(self, do, text) -> RunFolder:
        """Ask for what does not fail; return the folder of the run."""
        outcome, place = self.ask(do, text)
        assert outcome["error"] is None, outcome["error"]
        assert place is not None
        return place

    def continued(self, text, rounds: int) -> RunFolder:
        """Run a study that ends after so many steps, resume it, return its folder."""
        self.dies_after(rounds)
        outcome, _ = self.ask("run", text)
        assert outcome["error"] is not None
        self.dies_after(None)
        return self.done("resume", text)

    def dies_after(self, rounds: int | None) -> None:
        """Let the silos answer so many steps in each job, and then nothing."""
        self._rounds = rounds

    def party(self, silo):
        """Open a silo's door."""
        return SiloFile.from_file(self.silos[silo] / "silo.toml").party(
            FollowedPrograms()
        )

    def _channel(self, parties, timeout):
        return LocalChannel(
            {
                party: self._mortal(self.party(party).handle)
                for party in parties
                if party in self.silos
            }
        )

    def _mortal(self, door):
        left = self._rounds

        def handle(data):
            nonlocal left
            if left is not None and decode(data).header["kind"] in ("step", "steps"):
                left -= 1
                if left < 0:
                    raise ConnectionError("the silo's process ended")
            return door(data)

        return handle
