"""`unpooled provision`: options that go together, keys made at home."""

import pytest

from silo_command import FILE, run
from unpooled.cli.terminal import say


@pytest.mark.thinned(1)
@pytest.mark.parametrize(
    "arguments",
    [
        ("--request", "va", "--sign", "{file}"),
        ("--package", "{file}"),
        ("--fingerprint", "AB"),
        ("--sign", "/nowhere.zip"),
    ],
)
def test_options_of_provision_that_do_not_go_together(tmp_path, arguments):
    file = tmp_path / "federation.toml"
    file.write_text(FILE.format(port=1, admin_port=2))

    run("provision", file, *[a.format(file=file) for a in arguments], code=2)


def test_without_nvflare_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "unpooled.federation.nvflare.consortium.find_spec", lambda _: None
    )
    file = tmp_path / "federation.toml"
    file.write_text(FILE.format(port=1, admin_port=2))

    told = run("provision", file, "--out", tmp_path / "kits", code=1)

    assert 'pip install "unpooled[nvflare]"' in told
    assert not (tmp_path / "kits").exists()


def test_a_fingerprint_is_shown_as_it_is(capsys):
    say("--fingerprint AB:AB:12:B2:CD")

    assert capsys.readouterr().out == "--fingerprint AB:AB:12:B2:CD\n"


@pytest.mark.slow
def test_keys_made_at_home_by_command(tmp_path, monkeypatch):
    pytest.importorskip("nvflare", reason="nvflare absent")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    file, silo = tmp_path / "federation.toml", tmp_path / "silo"
    file.write_text(FILE.format(port=8002, admin_port=8003))

    run("provision", file, "--request", "va", "--out", silo)
    asked = silo / "requests" / "va" / "va.request.zip"
    told = run("provision", file, "--sign", asked, "--authority", tmp_path / "ca")
    fingerprint = told.split("--fingerprint ")[1]
    signed = asked.with_name("va.signed.zip")
    run("provision", file, "--package", signed, "--fingerprint", fingerprint,
        "--out", silo)  # fmt: skip

    assert (silo / "silos" / "va" / "startup" / "client.key").exists()
