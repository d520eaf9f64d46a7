"""A federation whose silos and coordinator have no way out but an HTTP proxy."""

import pytest

import unpooled as up
from connect_proxy import connect_proxy
from integration.consortium import HEART, Consortium, study_text
from integration.rows import SILOS
from integration.terminal import unpooled

# A name that nobody but the proxy can look up: no connection takes another way.
RELAY = "relay.hearts.invalid"


def test_all_connections_pass_the_proxy(tmp_path, monkeypatch):
    pytest.importorskip("nvflare")
    with connect_proxy({RELAY: "127.0.0.1"}) as proxy:
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.port}")
        made = Consortium(tmp_path, server=RELAY, transport="grpc")
        try:
            made.start()
            check = unpooled("silo", "check", "--kit", made.kit("va"))
            path = tmp_path / "through.toml"
            path.write_text(study_text("through", HEART) + "[outputs]\nreport = false")

            done = up.Study.from_file(path).run(kit=made.coordinator)
        finally:
            made.stop()

    assert done.ledger.verify()
    assert {silo for line in done.ledger for silo in line.parties} == set(SILOS)
    assert check.returncode == 0, check.stderr
    assert {line.split(":")[0] for line in proxy.asked} == {f"CONNECT {RELAY}"}
    # Each silo and its job, the coordinator, and the check.
    assert len(proxy.asked) >= 2 * len(SILOS) + 2
