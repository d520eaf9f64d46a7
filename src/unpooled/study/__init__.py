"""Studies: a file that says what is asked of whom, and a folder that holds the answer.

study.toml ─> Study ─> plan      what would leave, before anything does
                   └─> run ────> a folder: models, ledger, rounds, log, report
                   └─> resume ─> the same folder, continued after a crash
"""

from unpooled.study.run import Run
from unpooled.study.study import Study

__all__ = ["Run", "Study"]
