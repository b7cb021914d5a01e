# shellcheck shell=bash
# What the shell tests of lab/test share: captures, and checks, which lab/lib/testing.py prints and counts. Sourced, never run.

# shellcheck source=../lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

TEST=${0##*/}
# `sudo lab/test/live` is root's: its commands write where root alone may.
unset SUDO_UID SUDO_GID SUDO_USER
# What `capture` adds to every capture, and `holds` puts before every expression.
CAPTURE=() JQ=''

# report passed|failed|skipped|finished [NAME [DETAIL]]
report() {
    [ -n "${REPORTER:-}" ] || { exec {REPORTS}> >(exec python3 -B "$ROOT/lab/lib/testing.py" "$TEST"); REPORTER=$!; }
    printf '%s\x1f%s\x1f%s\0' "$1" "${2:-}" "${3:-}" >&"$REPORTS"
}
ok() { report passed "$@"; }
not_ok() { report failed "$@"; }
skip() { report skipped "$@"; }

# same NAME WANTED FOUND
same() { if [ "$2" = "$3" ]; then ok "$1"; else not_ok "$1" "wanted $2, found $3; $(tail -n 2 "$WORK/err" 2>/dev/null)"; fi; }

# holds NAME RUN|FILE EXPRESSION: a jq expression that must be true of a record.
holds() {
    local file=$2
    [[ $file == */* ]] || file=$WORK/$2/run.json
    if [ "$(jq "$JQ $3" "$file" 2>/dev/null)" = true ]; then
        ok "$1"
    else
        not_ok "$1" "$3 does not hold: $(jq -c "$JQ [.exit, .ledger, .warnings], ($3 | .)" "$file" 2>&1 | head -c 600) $(head -c 300 "${file%/run.json}.err" 2>/dev/null)"
    fi
}

# check NAME COMMAND…: it succeeds. What it prints is shown if it fails; of its lines, a note is shown in any case.
check() {
    if "${@:2}" >"$WORK/said" 2>&1; then
        ok "$1" "$(sed -n 's/^note: //p' "$WORK/said")"
    else
        not_ok "$1" "
$(tail -n 20 "$WORK/said")"
    fi
}

# shellcheck disable=SC2034 # STATUS is for the caller
# capture RUN OPTION… [-- COMMAND…]: one capture into $WORK/RUN; STATUS and $WORK/RUN.err tell how it went.
capture() {
    local run=$WORK/$1
    STATUS=0
    as_root "$OVERHEAD" capture -i lo "${CAPTURE[@]}" -o "$run" "${@:2}" >"$run.out" 2>"$run.err" </dev/null || STATUS=$?
    [ ! -e "$run" ] || give_back "$run"
}

# finish: the last line, like that of cargo test, and the status.
finish() {
    report finished
    wait "$REPORTER"
    exit
}
