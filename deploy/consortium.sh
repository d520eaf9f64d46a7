#!/usr/bin/env bash
# Three silos, a server and a coordinator on one machine: real processes, real TLS.
#
#   deploy/consortium.sh up      provision, found and start everything under $FOLDER
#   deploy/consortium.sh run     plan and run the heart study, then look at a silo's log
#   deploy/consortium.sh down    stop what `up` started; kits and results stay
#
# FOLDER (default ./consortium) is where everything is; PORT (default 8002) and the next
# port must be free. Silo va reads SQLite; with POSTGRES=postgresql://user@host/db?table=va
# it reads that table instead.
set -euo pipefail

FOLDER=$(mkdir -p "${FOLDER:-consortium}" && cd "${FOLDER:-consortium}" && pwd)
PORT=${PORT:-8002}
PYTHON=${PYTHON:-python3}
SILOS=(cleveland hungary va)
KITS=$FOLDER/kits

write_rows() {
    "$PYTHON" - "$FOLDER" <<'PYTHON'
import contextlib, pathlib, sqlite3, sys
import pyarrow.csv, pyarrow.parquet
from unpooled.data.heart_disease import load

folder, tables = pathlib.Path(sys.argv[1]), load()
pyarrow.csv.write_csv(tables["cleveland"], folder / "cleveland.csv")
pyarrow.parquet.write_table(tables["hungary"], folder / "hungary.parquet")
va = tables["va"]
with contextlib.closing(sqlite3.connect(folder / "va.db")) as database, database:
    names = ", ".join(f'"{name}" REAL' for name in va.column_names)
    database.execute("DROP TABLE IF EXISTS va")
    database.execute(f"CREATE TABLE va ({names})")
    marks = ", ".join("?" * len(va.column_names))
    rows = (tuple(row.values()) for row in va.to_pylist())
    database.executemany(f"INSERT INTO va VALUES ({marks})", rows)
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
    write_rows
    local database=${POSTGRES:-sqlite:///$FOLDER/va.db?table=va}
    local sources=("$FOLDER/cleveland.csv" "$FOLDER/hungary.parquet" "$database")
    for number in "${!SILOS[@]}"; do
        unpooled silo init --kit "$KITS/silos/${SILOS[$number]}" \
            --source "${sources[$number]}" --label num
    done
    # Between organisations people send each other these lines, and compare the digests.
    for kit in "$KITS/server" "${SILOS[@]/#/$KITS/silos/}"; do
        unpooled silo pin "$KITS"/silos/*/local/*.public --kit "$kit"
    done
    {
        printf '[study]\nname = "heart"\nlabel = "num"\n'
        printf '[parties.%s]\n' "${SILOS[@]}"
        printf '[[steps]]\nmodel = "SimpleImputer"\n[[steps]]\nmodel = "StandardScaler"\n'
        printf '[[steps]]\nmodel = "PCA"\nn_components = 5\n'
    } > "$FOLDER/heart.toml"
}

launch() {  # name, then the command that stays in the foreground
    # A session of its own: it outlives this window.
    setsid unpooled "${@:2}" > "$FOLDER/$1.log" 2>&1 < /dev/null &
    echo $! > "$FOLDER/$1.pid"
}

up() {
    [ -d "$KITS" ] || found
    launch server serve "$KITS/server"
    local until=$((SECONDS + 60))
    until unpooled silo check --kit "$KITS/silos/va" > "$FOLDER/check.txt" 2>&1; do
        [ $SECONDS -lt $until ] || { cat "$FOLDER/check.txt"; exit 1; }
        sleep 1
    done
    for silo in "${SILOS[@]}"; do
        launch "$silo" silo start --kit "$KITS/silos/$silo"
    done
    echo "Started. Next: deploy/consortium.sh run"
}

run() {
    local until=$((SECONDS + 60)) kit=$KITS/coordinator
    # The silos connect within seconds; before that a plan says who is missing.
    until unpooled plan "$FOLDER/heart.toml" --kit "$kit"; do
        [ $SECONDS -lt $until ] || exit 1
        sleep 2
    done
    unpooled run "$FOLDER/heart.toml" --resume --kit "$kit"
    unpooled silo log --verify --kit "$KITS/silos/va"
}

down() {
    for name in "${SILOS[@]}" server; do
        [ -f "$FOLDER/$name.pid" ] || continue
        local kit=$KITS/silos/$name pid
        [ "$name" = server ] && kit=$KITS/server
        # Jobs are processes of their own; all have their kit as an argument.
        for pid in $(cat "$FOLDER/$name.pid") $(of_kit "$kit"); do
            kill -TERM "$pid" 2> /dev/null || true
        done
        rm -f "$FOLDER/$name.pid"
    done
}

of_kit() {
    local entry
    for entry in /proc/[0-9]*; do
        if tr '\0' '\n' 2> /dev/null < "$entry/cmdline" | grep -qxF -- "$1"; then
            echo "${entry#/proc/}"
        fi
    done
}

case "${1:-}" in
    up | run | down) "$1" ;;
    *) sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
