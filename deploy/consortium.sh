#!/usr/bin/env bash
# Three silos, a server and a coordinator on one Linux machine: real processes, real TLS.
#
#   deploy/consortium.sh up      make kits and silo files, start everything under $FOLDER
#   deploy/consortium.sh run     plan and run the heart study, then look at a silo's log
#   deploy/consortium.sh down    stop what `up` started; kits and results stay
#
# Cleveland reads a CSV file, Hungary a Parquet file, VA a table of PostgreSQL: one that
# `up` starts where PostgreSQL is installed, or the address in POSTGRES, such as
# postgresql://user@host/db?table=va; else SQLite. FOLDER (default ./consortium) holds
# everything; PORT (default 8002) and the next port must be free, and are kept once
# kits are made; PYTHON (default python3) has unpooled with its extras nvflare and sql.
set -euo pipefail

FOLDER=$(realpath -m "${FOLDER:-consortium}")
PORT=${PORT:-8002}
[ ! -s "$FOLDER/federation.toml" ] || PORT=$(sed -n 's/^port = //p' "$FOLDER/federation.toml")
PYTHON=${PYTHON:-python3}
SILOS=(cleveland hungary va)
KITS=$FOLDER/kits

unpooled() {
    "$PYTHON" -m unpooled "$@"
}

fail() {
    echo "$1" >&2
    exit 1
}

can_start() {  # checks what would otherwise fail only after a minute
    "$PYTHON" - "$PORT" <<'PYTHON'
import socket, sys
from importlib.util import find_spec

needed = ("unpooled", "nvflare", "adbc_driver_postgresql", "adbc_driver_sqlite")
if missing := [name for name in needed if find_spec(name) is None]:
    sys.exit(f"{sys.executable} lacks {', '.join(missing)}. Name the Python of your "
             f"environment: PYTHON=.venv/bin/python")
for port in (int(sys.argv[1]), int(sys.argv[1]) + 1):
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("", port))
        except OSError as wrong:
            sys.exit(f"Port {port}: {wrong.strerror}. Name one by PORT= that is free, as "
                     f"the next one is.")
PYTHON
}

write_rows() {  # at each start, since a table in /tmp may have been deleted
    "$PYTHON" - "$FOLDER" "$(va_address)" "${POSTGRES:-}" <<'PYTHON'
import pathlib, sys
import pyarrow.csv, pyarrow.parquet
from unpooled.data.heart_disease import load

folder, address, tables = pathlib.Path(sys.argv[1]), sys.argv[2], load()
folder.mkdir(parents=True, exist_ok=True)
pyarrow.csv.write_csv(tables["cleveland"], folder / "cleveland.csv")
pyarrow.parquet.write_table(tables["hungary"], folder / "hungary.parquet")
if address == sys.argv[3]:
    sys.exit()  # the database in POSTGRES has its rows already
if address.startswith("sqlite"):
    import adbc_driver_sqlite.dbapi as driver
    place = str(folder / "va.db")
else:
    import adbc_driver_postgresql.dbapi as driver
    place = address.replace("&table=va", "")
with driver.connect(place, autocommit=True) as connection, connection.cursor() as cursor:
    cursor.adbc_ingest("va", tables["va"], mode="replace")
PYTHON
}

found() {
    cat > "$FOLDER/federation.toml" <<TOML
[federation]
name = "hearts"
server = "localhost"
port = $PORT
admin_port = $((PORT + 1))
coordinator = "ada@example.org"
[silos.cleveland]
[silos.hungary]
[silos.va]
TOML
    unpooled provision "$FOLDER/federation.toml" --out "$KITS"
    local sources=("$FOLDER/cleveland.csv" "$FOLDER/hungary.parquet" "$(va_address)")
    for number in "${!SILOS[@]}"; do
        unpooled silo init --kit "$KITS/silos/${SILOS[$number]}" \
            --source "${sources[$number]}" --label num --bundle "$FOLDER/bundle.toml"
    done
    # Between organisations people pass the bundle on, and compare its words by phone.
    for kit in "$KITS/server" "${SILOS[@]/#/$KITS/silos/}"; do
        unpooled silo pin "$FOLDER/bundle.toml" --kit "$kit"
    done
    {
        printf '[study]\nname = "heart"\nlabel = "num"\n'
        printf '[parties.%s]\n' "${SILOS[@]}"
        printf '[[steps]]\nmodel = "SimpleImputer"\n[[steps]]\nmodel = "StandardScaler"\n'
        printf '[[steps]]\nmodel = "PCA"\nn_components = 5\n'
    } > "$FOLDER/heart.toml"
}

va_address() {
    if [ -n "${POSTGRES:-}" ]; then
        echo "$POSTGRES"
    elif [ -s "$FOLDER/postgresql" ]; then
        echo "postgresql://owner@/postgres?host=$(cat "$FOLDER/postgresql")&table=va"
    else
        echo "sqlite:///$FOLDER/va.db?table=va"
    fi
}

programs() {  # Debian keeps the server outside PATH, in a folder for its version
    local found
    found=$(command -v initdb || ls -d /usr/lib/postgresql/*/bin/initdb 2> /dev/null | tail -n 1)
    [ -n "$found" ] && dirname "$found"
}

as_server() {  # PostgreSQL refuses to run as root
    if [ "$(id -u)" = 0 ]; then (cd / && runuser -u postgres -- "$@"); else "$@"; fi
}

start_postgresql() {  # a cluster of its own, on a socket and on no port
    local bin place
    bin=$(programs) || { echo "No PostgreSQL here: VA reads SQLite."; return; }
    # The path of a socket has at most 107 characters, so it is not under $FOLDER.
    [ -s "$FOLDER/postgresql" ] || mktemp -d /tmp/unpooled-pg.XXXXXX > "$FOLDER/postgresql"
    place=$(cat "$FOLDER/postgresql")
    [ -d "$place" ] || mkdir -m 700 "$place"
    if [ ! -d "$place/data" ]; then
        [ "$(id -u)" != 0 ] || chown postgres "$place"
        as_server "$bin/initdb" -D "$place/data" -U owner -E UTF8 --auth=trust \
            --no-locale > /dev/null
    fi
    as_server "$bin/pg_ctl" -D "$place/data" -l "$place/log" -w \
        -o "-k $place -c listen_addresses=''" start > /dev/null
}

stop_postgresql() {
    [ -s "$FOLDER/postgresql" ] || return 0
    as_server "$(programs)/pg_ctl" -D "$(cat "$FOLDER/postgresql")/data" -m fast stop \
        > /dev/null || true
}

launch() {  # name, then the command that stays in the foreground
    # A session of its own: it outlives this window.
    setsid "$PYTHON" -m unpooled "${@:2}" > "$FOLDER/$1.log" 2>&1 < /dev/null &
}

up() {
    [ -z "$(running)" ] || fail "It is up already. To stop it: $0 down"
    can_start
    mkdir -p "$FOLDER"
    trap down EXIT  # no process stays if one fails to start
    [ -n "${POSTGRES:-}" ] || start_postgresql
    write_rows
    if [ ! -s "$FOLDER/heart.toml" ]; then
        [ ! -e "$KITS" ] || fail "$KITS is not finished. Delete it, and start again."
        found
    fi
    launch server serve "$KITS/server"
    local until=$((SECONDS + 60))
    until unpooled silo check --kit "$KITS/silos/va" > "$FOLDER/check.txt" 2>&1; do
        [ $SECONDS -lt $until ] || fail "$(cat "$FOLDER/check.txt" "$FOLDER/server.log")"
        sleep 1
    done
    for silo in "${SILOS[@]}"; do
        launch "$silo" silo start --kit "$KITS/silos/$silo"
    done
    trap - EXIT
    echo "Started. Next: $0 run"
}

run() {
    local until=$((SECONDS + 60)) kit=$KITS/coordinator
    # The silos connect within seconds; until then a plan reports who is missing.
    [ -n "$(running)" ] || fail "Nothing is up. To start it: $0 up"
    until unpooled plan "$FOLDER/heart.toml" --kit "$kit"; do
        [ $SECONDS -lt $until ] || exit 1
        sleep 2
    done
    unpooled run "$FOLDER/heart.toml" --resume --kit "$kit"
    unpooled silo log --verify --kit "$KITS/silos/va"
}

down() {
    local until=$((SECONDS + 20))
    while [ -n "$(running)" ]; do
        if [ $SECONDS -lt $until ]; then kill -TERM $(running); else kill -KILL $(running); fi
        sleep 0.5
    done 2> /dev/null || true
    stop_postgresql
}

running() {  # jobs are separate processes; each has its kit as an argument
    printf '%s\n' "$KITS/server" "${SILOS[@]/#/$KITS/silos/}" \
        | { grep -slzxF -f - /proc/[0-9]*/cmdline || true; } | cut -d / -f 3
}

case "${1:-}" in
    up | run | down) "$1" ;;
    *) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
