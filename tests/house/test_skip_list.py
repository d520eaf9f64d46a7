"""The plugin that makes a skip fail in CI, run in pytest inside pytest."""

import pytest

import skip_list

SKIPS = """
    import pytest

    def test_runs():
        pass

    @pytest.mark.parametrize("kind", ["a-1", "b-2"])
    def test_needs_a_browser(kind):
        pytest.skip("chromium absent")

    @pytest.mark.skipif(True, reason="on Tuesdays")
    def test_marked():
        pass

    @pytest.fixture
    def absent():
        pytest.skip("data absent")

    def test_with_fixture(absent):
        pass

    @pytest.mark.xfail(reason="known")
    def test_expected_to_fail():
        assert False
"""
ALL_ALLOWED = """
# a comment, and a blank line

test_site.py::test_needs_a_browser[*]  # chromium absent
test_site.py::test_marked  # on Tuesdays
*  # data *
"""


@pytest.fixture
def run(pytester, monkeypatch):
    """Run a test file under a list of allowed skips, or without one."""

    def run(source, allowed=None):
        monkeypatch.delenv(skip_list.VARIABLE, raising=False)
        pytester.makepyfile(test_site=source)
        if allowed is not None:
            path = pytester.path / "allowed.txt"
            path.write_text(allowed)
            monkeypatch.setenv(skip_list.VARIABLE, str(path))
        return pytester.runpytest("-p", "skip_list")

    return run


@pytest.mark.slow
def test_without_a_list_skips_are_skips(run):
    result = run(SKIPS)

    result.assert_outcomes(passed=1, skipped=4, xfailed=1)
    assert result.ret == pytest.ExitCode.OK


def test_allowed_skips_pass(run):
    result = run(SKIPS, ALL_ALLOWED)

    result.assert_outcomes(passed=1, skipped=4, xfailed=1)
    assert result.ret == pytest.ExitCode.OK


def test_every_other_skip_fails_and_says_which_line_would_allow_it(run):
    result = run(SKIPS, "")

    # What skips before the test's own first line, pytest calls an error.
    result.assert_outcomes(passed=1, failed=2, errors=2, xfailed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "*test_site.py::test_marked  # on Tuesdays",
            "*test_site.py::test_with_fixture  # data absent",
            "*test_site.py::test_needs_a_browser[[]a-1[]]  # chromium absent",
        ]
    )


@pytest.mark.thinned(1)
@pytest.mark.parametrize(
    "line",
    [
        "test_site.py::test_marked  # on Wednesdays",
        "test_site.py::test_mark  # on Tuesdays",
        "test_site.py::test_needs_a_browser[ab]  # chromium absent",
    ],
    ids=["another reason", "part of an id", "brackets are no character class"],
)
def test_a_line_covers_only_what_it_was_written_for(run, line):
    result = run(SKIPS, line)

    result.assert_outcomes(passed=1, failed=2, errors=2, xfailed=1)


@pytest.mark.slow
def test_a_module_that_skips_itself_fails_unless_allowed(run):
    source = "import pytest\npytest.importorskip('no_such_module_anywhere')"

    assert run(source, "").ret == pytest.ExitCode.INTERRUPTED
    # Nothing is left to run, and pytest says so with a code of its own.
    allowed = "test_site.py  # could not import 'no_such_module_anywhere'*"
    assert run(source, allowed).ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_a_line_without_a_reason_is_refused(run):
    result = run(SKIPS, "test_site.py::test_marked")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*line 1: 'test_site.py::test_marked' has no reason*"])


def test_a_list_that_is_not_there_is_refused(run, monkeypatch, pytester):
    pytester.makepyfile(SKIPS)
    monkeypatch.setenv(skip_list.VARIABLE, "no-such-list.txt")

    result = pytester.runpytest("-p", "skip_list")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*no-such-list.txt, which is not a file*"])
