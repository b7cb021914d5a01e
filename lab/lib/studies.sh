# shellcheck shell=bash
# What the studies of lab/comparison share: a study measures cells, each a folder in its `runs` with cell.json (what it is),
# run.json (what the wire and the kernel saw) and what the client saw: bench.json, or tool.json of another tool. Its template
# and these records make its page, and the records are packed into records.jsonl.zst. Sourced, never run.

# shellcheck source=../lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$ROOT" || exit

# A folder with programs that are built already may be named, and nothing is built then.
PROGRAMS=${OVERHEAD_PROGRAMS:-target/release}
OVERHEAD=$PROGRAMS/overhead
# What is measured quickly is not kept where what is measured well is.
QUICK=${OVERHEAD_QUICK:-}
RESULTS=docs/comparison
[ -z "$QUICK" ] || RESULTS=$LAB/comparison
work_folder

# is_wanted SERVER: it is measured; `lab/comparison --only` names those that are, where not all.
is_wanted() { [ -z "${OVERHEAD_ONLY:-}" ] || [[ ,$OVERHEAD_ONLY, == *,$1,* ]]; }

# study NAME SERVER…: builds and installs what is missing, and starts its folder anew, or the part of it that is measured again.
study() {
    local server conditions='{}'
    local -a wanted=()
    STUDY=$1
    RESULT=$RESULTS/$STUDY
    for server in "${@:2}"; do ! is_wanted "$server" || wanted+=("$server"); done
    [ "${#wanted[@]}" -gt 0 ] || die "$STUDY measures none of $OVERHEAD_ONLY; it has: ${*:2}"
    lab/install build comparison "${wanted[@]}"
    [ -n "${OVERHEAD_PROGRAMS:-}" ] || nice cargo build --release --locked -p overhead -p overhead-bench -p overhead-studies
    rm -rf -- "${RESULT:?}/runs"
    if [ -n "${OVERHEAD_ONLY:-}" ] && [ -e "$RESULT/records.jsonl.zst" ]; then
        "$PROGRAMS/overhead-studies" --unpack "$RESULT" "$RESULT"
        conditions=$(cat "$RESULT/conditions.json")
    fi
    mkdir -p "$RESULT/runs"
    jq -n --argjson used "$(cpus_in_use)" --argjson before "$conditions" \
        '{servers: {}} + $before | .cpus_in_use = ([.cpus_in_use, $used] | max)' >"$WORK/conditions"
    cp "$WORK/conditions" "$RESULT/conditions.json"
}

# page: makes the pages and charts of the records, and packs the records.
page() { "$PROGRAMS/overhead-studies" "lab/studies/$STUDY.md.jinja" "$RESULT"; }

# cpus_in_use: how many, on average over five seconds in which we do nothing.
cpus_in_use() {
    # shellcheck disable=SC2016 # awk's own
    local ticks='NR == 1 { for (field = 2; field <= 9; field++) all += $field; print all, $5 + $6 }' before after
    before=$(awk "$ticks" /proc/stat)
    sleep 5
    after=$(awk "$ticks" /proc/stat)
    awk -v cpus="$(nproc)" '{ print cpus * (1 - ($4 - $2) / ($3 - $1)) }' <<<"$before $after"
}

# on_server SERVER COMMAND…: runs COMMAND while a server of the lab is up, with SERVER, HOST, PORT, SOCKET, INTERFACE and TITLE set.
# COMMAND may add to PORTS those of further processes. A cell is of the packets of these ports, or, where COMMAND sets TRANSPORT to
# unix, of what goes through SOCKET.
on_server() {
    is_wanted "$1" || return 0
    SERVER=$1 HOST=127.0.0.1 INTERFACE=lo
    say "" "== $SERVER"
    with_servers "$SERVER"
    PORT=$("$SERVERS/$SERVER" port)
    PORTS=("$PORT")
    SOCKET=$("$SERVERS/$SERVER" socket)
    mapfile -t INSIDE < <("$SERVERS/$SERVER" within)
    known_as "$("$SERVERS/$SERVER" version)"
    "${@:2}"
    drop_servers
}

# on_others COMMAND…: the same for each server that --server named.
on_others() {
    local other
    for other in ${OVERHEAD_MORE_SERVERS:-}; do
        SERVER=${other%%=*} HOST=${other#*=}
        PORT=${HOST##*:} HOST=${HOST%:*} SOCKET='' INSIDE=()
        PORTS=("$PORT")
        INTERFACE=$(ip -o route get "$(getent ahosts "$HOST" | awk 'NR == 1 { print $1 }')" | sed -nE 's/.* dev ([^ ]+).*/\1/p')
        say "" "== $SERVER at $HOST:$PORT, by ${INTERFACE:?no route to $HOST}"
        known_as "$SERVER"
        "$@"
    done
}

# known_as TITLE: what the page calls the server at hand.
known_as() {
    TITLE=$1
    # shellcheck disable=SC2016 # jq's variables
    condition --arg server "$SERVER" --arg title "$TITLE" '.servers[$server] = $title'
}

# condition ARGUMENT…: has jq change what the page knows besides its cells.
condition() { jq "$@" "$RESULT/conditions.json" >"$WORK/conditions" && cp "$WORK/conditions" "$RESULT/conditions.json"; }

# captured DB NAME LABEL=VALUE… -- COMMAND…: one cell, with its packets and their fields. A capture that is not whole is made again.
captured() {
    local try
    for try in 1 2 3; do
        if cell --fields "$1" "$2" kind=captured "${@:3}"; then return; fi
        say "$2: try $try was not whole"
    done
    die "$2: no whole capture in three tries"
}

# counted DB NAME LABEL=VALUE… -- COMMAND…: one cell with the kernel's counters alone, for rates and latencies.
counted() { cell --bpf-only "$1" "$2" kind=counted "${@:3}" || die "$2 was not measured"; }

# cell HOW DB NAME LABEL=VALUE… -- COMMAND…: @RUN@ in COMMAND is the cell's folder, and what it prints is kept in $WORK/printed.
# A counted cell's COMMAND counts all of its operations: the load has no time to warm up.
cell() {
    local how=$1 db=$2 status=0
    RUN=$RESULT/runs/$3
    local -a labels=("server=$SERVER" "title=$TITLE")
    shift 3
    while [ "$1" != -- ]; do
        labels+=("$1")
        shift
    done
    shift
    rm -rf -- "$RUN"
    mkdir -p "$RUN"
    labels_of "${labels[@]}" >"$RUN/cell.json"
    local -a where=(-i "$INTERFACE" "${PORTS[@]/#/--port=}")
    # A server is found by its port, and then all that it does is counted, over its socket too.
    [ "${TRANSPORT:-tcp}$how" != unix--fields ] || where=(--unix "$SOCKET")
    as_root "${INSIDE[@]}" "$OVERHEAD" capture "${where[@]}" --db "$db" "$how" -q --force -o "$RUN" -- \
        "${@//@RUN@/$RUN}" 2>"$WORK/printed" >/dev/null || status=$?
    give_back "$RUN"
    [ "$status" -eq 0 ] || { tail -n 20 "$WORK/printed" >&2; return "$status"; }
    # The packets have told their fields, and the page has figures of its own.
    find "$RUN" -type f ! -name run.json ! -name bench.json ! -name cell.json -delete
    tidy "$RUN"/{run,bench}.json
    say "   ${RUN#"$RESULT"/}"
}

# labels_of LABEL=VALUE…: as JSON; digits alone are a number.
labels_of() {
    jq -cn '$ARGS.positional | map(capture("(?<key>[^=]+)=(?<value>.*)"; "m")
        | if .value | test("^[0-9]+$") then .value |= tonumber else . end) | from_entries' --args "$@"
}

# tidy FILE…: records on one line, without the name of this machine and the places of the checkout and of the programs.
tidy() {
    local file
    for file in "$@"; do
        [ -e "$file" ] || continue
        jq -c --arg programs "$PROGRAMS/" --arg root "$ROOT/" 'walk(if type == "string" then ltrimstr($programs) | split($root) | join("") else . end) | if .environment.host then .environment.host = "lab" else . end
            | if .command_line then .command_line[0] |= sub(".*/"; "") else . end' "$file" >"$WORK/tidy"
        cat "$WORK/tidy" >"$file"
    done
}
