"""Run every experiment quickly, and compare its tables with the committed ones.

    python experiments/compare.py [--write] [--only SCRIPT]

A quick run takes small sizes and few starts. Its tables are committed under
results/quick, so that a change of the library that moves a figure is seen. Columns of
seconds and bytes, and figures at the level of rounding, are not compared. Bits of BLAS
differ between processors, and with them the starts of searches and what is rounded to a
few bits: a quick run's accuracy may move by two of its thirty test rows, an angle after
rounding by a twentieth, and three cells of all tables further, which are printed.
`--write` commits to new tables: look at what changed.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
COMMITTED = HERE / "results" / "quick"
SCRIPTS = (
    "dgep",
    "kernel_approximations",
    "mmvfl",
    "pcov",
    "personalized_pca",
    "private_certainty",
    "private_pca",
    "securefedyj",
    "uncertainty",
    "vfedakpca",
    "vfedpca",
    "vfedpca_synthetic",
    "vfedpca_topologies",
)
# Words of a column's head that say that it is of this run on this machine, or of noise
# that has no seed.
MEASURED = re.compile(
    r"\b(s|ms|seconds|bytes|takes|cpu|processor|MB|time|noisy)\b", re.I
)
NUMBER = re.compile(r"-?\d[\d,]*\.?\d*(?:e[+-]?\d+)?")
# Tables have three digits; below this a figure is rounding.
TOLERANCE, ROUNDING = 2e-2, 1e-6
# Of columns that one row, or a bit of BLAS, moves: by their heads.
ACCURACY, TWO_ROWS = re.compile(r"\b(test|train|accuracy)\b", re.I), 7e-2
FURTHER = 3
ANGLE, TWENTIETH = re.compile(r"\bangle\b", re.I), 5e-2


def tables(text: str) -> list[list[list[str]]]:
    """Return the tables of a Markdown page, each a list of lines of cells."""
    found: list[list[list[str]]] = [[]]
    for line in text.splitlines():
        if line.startswith("|"):
            found[-1].append([cell.strip() for cell in line.strip("|").split("|")])
        elif found[-1]:
            found.append([])
    return [table for table in found if table]


def differences(committed: str, now: str) -> list[str]:
    """Return the cells in which two pages differ by more than rounding."""
    before, after = tables(committed), tables(now)
    if len(before) != len(after):
        return [f"{len(before)} tables were committed, and {len(after)} were made"]
    found = []
    for number, (old, new) in enumerate(zip(before, after, strict=True), 1):
        if len(old) != len(new) or old[0] != new[0]:
            found.append(f"table {number} has other lines or columns")
            continue
        head = old[0]
        for left, right in zip(old[2:], new[2:], strict=True):
            cells = zip(head, left, right, strict=False)
            found += [
                f"table {number}, {left[0]}, {name}: {a} was committed, {b} was made"
                for name, a, b in cells
                if not MEASURED.search(name) and not alike(a, b, name)
            ]
    return found


def alike(a: str, b: str, head: str = "") -> bool:
    """Whether two cells of a column have the same words, and numbers that agree."""
    if a == b:
        return True
    if NUMBER.sub("#", a) != NUMBER.sub("#", b):
        return False
    pairs = zip(NUMBER.findall(a), NUMBER.findall(b), strict=True)
    return all(
        _near(*(float(x.replace(",", "")) for x in pair), head) for pair in pairs
    )


def _near(a: float, b: float, head: str) -> bool:
    if ACCURACY.search(head) and max(abs(a), abs(b)) <= 1.0:
        return abs(a - b) <= TWO_ROWS
    share = TWENTIETH if ANGLE.search(head) else TOLERANCE
    small = max(abs(a), abs(b)) < ROUNDING
    return small or abs(a - b) <= share * max(abs(a), abs(b), 0.1)


def _run(script: str, more: list[str]) -> tuple[subprocess.CompletedProcess[str], str]:
    """Run a script quickly; return the process, and the page that it wrote."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, str(HERE / f"{script}.py"), "--quick", *more],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"UNPOOLED_RESULTS": folder},
        )
        pages = sorted(Path(folder).glob("*.md"))
        return done, pages[0].read_text("utf-8") if pages else done.stdout


def main() -> int:
    """Run and compare; return 1 where figures moved."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="commit to new tables")
    parser.add_argument("--only", choices=SCRIPTS)
    asked = parser.parse_args()
    data = os.environ.get("UNPOOLED_DATA")
    if not data:
        parser.error("UNPOOLED_DATA names no folder; experiments/fetch.py makes one")
    COMMITTED.mkdir(exist_ok=True)
    moved, failed = list[str](), list[str]()
    for script in (asked.only,) if asked.only else SCRIPTS:
        more = (
            ["--data", data]
            if script in {"dgep", "mmvfl", "pcov", "private_pca"}
            else []
        )
        done, page = _run(script, more)
        print(script, flush=True)
        if done.returncode:
            failed.append(f"{script} failed:\n{done.stderr[-2000:]}")
            continue
        committed = COMMITTED / f"{script}.md"
        if asked.write:
            committed.write_text(page, "utf-8")
        else:
            moved += [
                f"{script}: {difference}"
                for difference in differences(committed.read_text("utf-8"), page)
            ]
    print("\n".join([*failed, *moved]), file=sys.stderr)
    return int(bool(failed) or len(moved) > FURTHER)


if __name__ == "__main__":
    sys.exit(main())
