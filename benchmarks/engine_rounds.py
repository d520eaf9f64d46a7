"""A masked sum over NVFlare against an empty message, side by side in one run.

    python benchmarks/engine_rounds.py

Starts a server and three silos on this machine. The masked sum counts and adds 13
columns of heart disease; the empty message is the one that ends a fit, with a signature
and no array. Both are medians over studies that run one after the other.
"""

import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import unpooled as up
from integration.consortium import Consortium, study_text

IMPUTER = '[[steps]]\nmodel = "SimpleImputer"\n'


def main() -> None:
    with tempfile.TemporaryDirectory() as work:
        consortium = Consortium(Path(work))
        try:
            consortium.start()
            seconds: dict[str, list[float]] = {}
            for number in range(5):
                path = Path(work) / f"rounds-{number}.toml"
                path.write_text(study_text(f"rounds-{number}", IMPUTER))
                done = up.Study.from_file(path).run(kit=consortium.coordinator)
                for record in done.rounds:
                    seconds.setdefault(record.step, []).append(record.seconds)
        finally:
            consortium.stop()
    # A lower bound of what a round can cost: a call of the engine, and one signature.
    medians = {step: sorted(s)[len(s) // 2] for step, s in seconds.items()}
    masked, bare = medians["imputer.local_observed"], medians["leave"]
    print(json.dumps({"medians": medians, "ratio": masked / bare}, indent=1))


if __name__ == "__main__":
    main()
