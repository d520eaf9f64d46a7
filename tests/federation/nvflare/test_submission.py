"""The submitter's session: results on their way to this machine."""

import base64
import errno
import io
import zipfile

import pytest

from unpooled.errors import AggregationError
from unpooled.federation.nvflare.submission import Submission


class Session:
    """A job that has results, as NVFlare's session passes its replies on."""

    def __init__(self, packed):
        self.packed = packed

    def do_app_command(self, job, topic, query):
        part = self.packed[query["part"] :] if "part" in query else b""
        return {"part": base64.b64encode(part).decode()}


def test_results_that_find_no_room_are_no_broken_results(tmp_path, monkeypatch):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("outcome.json", "{}")
    content = packed.getvalue()
    target = tmp_path / ".fetching" / "results"

    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    submission = Submission(tmp_path, Session(content))
    assert submission.take("job", len(content), tmp_path) == tmp_path / "outcome.json"
    monkeypatch.setattr(zipfile.ZipFile, "extractall", full)

    with pytest.raises(AggregationError, match=r"cannot be written to .*: No space"):
        submission.take("job", len(content), target)

    monkeypatch.undo()
    with pytest.raises(AggregationError, match="cannot be read: File is not a zip"):
        Submission(tmp_path, Session(b"no zip")).take("job", 6, target)
