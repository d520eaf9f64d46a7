"""Attacks by files of others: far larger, or nested far deeper, than they look."""

import base64
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from unpooled.errors import AggregationError, StudyError
from unpooled.federation.nvflare import submission
from unpooled.ledger.json_text import from_json
from unpooled.study.evaluation import FILE, Evaluation
from unpooled.study.job_messages import read_results

DEEP = "[" * 100_000


class Server:
    """A server that holds results."""

    def __init__(self, packed: bytes) -> None:
        self.packed = packed

    def do_app_command(self, job: str, topic: str, query: Any) -> dict[str, str]:
        part = self.packed[query["part"] :] if "part" in query else b""
        return {"part": base64.b64encode(part).decode()}


def test_results_that_unpack_to_more_than_a_disk_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(submission, "_MOST_UNPACKED", 10**6)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("outcome.json", b" " * (10**6 + 1))
    content = packed.getvalue()
    assert len(content) < 2000
    taken = submission.Submission(tmp_path, Server(content))
    with pytest.raises(AggregationError, match="far too large"):
        taken.take("job", len(content), tmp_path / "results")
    assert not (tmp_path / "results").exists()


def test_json_that_is_nested_too_deeply_is_a_mistake_in_a_sentence(tmp_path):
    with pytest.raises(ValueError, match="nested too deeply"):
        from_json(DEEP)
    outcome: Path = tmp_path / "outcome.json"
    outcome.write_text(DEEP)
    with pytest.raises(StudyError, match="nested too deeply"):
        read_results(outcome)
    (tmp_path / FILE).write_text(DEEP)
    with pytest.raises(StudyError):
        Evaluation.read(tmp_path)
    assert from_json(json.dumps({"a": [1]})) == {"a": [1]}
