"""Notices to people at a silo, by a command of the silo's own.

    silo.toml   notify = ["/usr/local/bin/tell-dpo"]
    event ──> /usr/local/bin/tell-dpo EVENT STUDY      an e-mail, a webhook, a ticket

The command gets the name of an event and that of a study, and nothing else of it. A
study neither waits for the command nor depends on it.

| event | when |
|---|---|
| waits | a study was announced, and a person must approve it |
| announced | a study was announced that needs no approval |
| finished | the models of a study were delivered |
"""

import logging
import subprocess
import threading
from collections.abc import Callable, Sequence

log = logging.getLogger("unpooled.party")

# Called with the event and the study's name.
Notify = Callable[[str, str], None]
# The name of the threads that run the command.
NAME = "unpooled notice"
_PATIENCE = 60.0  # seconds for the command


def notifier(command: Sequence[str]) -> Notify:
    """Return a function that runs a command with an event and a study's name."""

    def notify(event: str, study: str) -> None:
        words = [*command, event, study]
        threading.Thread(target=_run, args=(words,), name=NAME, daemon=True).start()

    return notify


def _run(words: Sequence[str]) -> None:
    try:
        # No shell: words are words, whatever a study is called.
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as wrong:
        log.warning("The command for notices, %s, failed: %s", words[0], wrong)
        return
    if done.returncode != 0:
        log.warning(
            "The command for notices, %s, ended with %d", words[0], done.returncode
        )
