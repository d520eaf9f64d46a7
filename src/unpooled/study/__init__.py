"""Studies: a file that says which models to fit over which silos, and its results.

study.toml ─> Study ─> plan      what would leave each silo; nothing leaves
                   ├─> run ────> a folder: models, ledger, rounds, log, report
                   └─> resume ─> the same folder, continued after an interruption

study_file               the parsed file
pipeline, model_updates  its steps, and the fitted models that steps update
run, run_folder          a run, step by step, and the folder that it writes
simulated_federation     all parties in this process
submit, server_job       the two ends of a study over a consortium: job_messages
announcement             a study as a silo sees it before its approval
study                    Study: from_file, plan, run, resume
"""

from unpooled.study.run import Run
from unpooled.study.study import Study

__all__ = ["Run", "Study"]
