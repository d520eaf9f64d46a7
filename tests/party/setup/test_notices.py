"""The silo's own command for notices: run with two words, and never waited for."""

import threading

import numpy as np
import pytest

from audit_command import TEXT, Consortium
from unpooled.models.files.model_file import save
from unpooled.party.setup import notices


@pytest.mark.slow
def test_a_silo_is_told_what_waits_and_what_is_finished(tmp_path):
    made, told = Consortium(tmp_path, "each-study"), tmp_path / "told"
    script = tmp_path / "tell"
    script.write_text(f'#!/bin/sh\necho "$#: $1 $2" >> {told}\n')
    script.chmod(0o700)
    own = tmp_path / "rome" / "local" / "silo.toml"
    own.write_text(own.read_text() + f'notify = ["{script}"]\n')
    made.start()

    made.announce()
    settled()
    made.announce()
    settled()
    assert told.read_text() == "2: waits heart\n"
    for name in ("berlin", "paris", "rome"):
        log = made.silo(name).party().audit_log
        log.decided("heart", approved=True, steps=["*"], by="anne")
    model, _ = made.fit()
    content = np.frombuffer(save(model, tmp_path / "m").read_bytes(), np.uint8)
    header = {"kind": "deliver", "study": "heart", "name": "pipeline"}
    made.coordinator().send(header, {"file": content})
    settled()
    assert told.read_text() == "2: waits heart\n2: finished heart\n"
    made.announce(TEXT + "# later\n")
    settled()
    assert told.read_text().endswith("2: waits heart\n")


def test_a_command_that_fails_stops_nothing(tmp_path, caplog):
    notices.notifier([str(tmp_path / "absent")])("waits", "heart")
    settled()
    assert "failed" in caplog.text
    notices.notifier(["false"])("waits", "heart")
    settled()
    assert "ended with 1" in caplog.text


def settled():
    """Wait for the commands that are running."""
    for thread in threading.enumerate():
        if thread.name == notices.NAME:
            thread.join(60.0)
