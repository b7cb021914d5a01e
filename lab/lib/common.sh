# shellcheck shell=bash
# What every lab script shares: its end at the first error, messages, privileges, packages, servers.
# Sourced first, never run.
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# Everything the lab writes at run time lives below this directory.
# shellcheck disable=SC2034 # for those who source this
LAB=${OVERHEAD_LAB:-$ROOT/.lab}
# What was fetched or built for a server stays here, where the server's user can read it, for the next checkout too.
if [ "$(id -u)" -eq 0 ]; then CACHE=/var/cache/overhead; else CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/overhead; fi
CACHE=${OVERHEAD_CACHE:-$CACHE}
# Where rustup puts cargo, also before the user has logged in again.
PATH=${CARGO_HOME:-${HOME:-/root}/.cargo}/bin:$PATH
SERVERS=$ROOT/lab/servers

say() { printf '%s\n' "$*" >&2; }
die() { say "${0##*/}: $*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }
is_root() { [ "$(id -u)" -eq 0 ]; }

# exec_as_root COMMAND…: becomes it, with root's rights; for the background, so that a signal reaches it.
exec_as_root() {
    if is_root; then exec "$@"; else exec sudo -- "$@"; fi
}

# as_root COMMAND…: runs it with root's rights, or ends with what is missing.
as_root() {
    if is_root; then
        "$@"
    elif have sudo; then
        sudo -- "$@"
    else
        die "'$*' needs root: run it as root, or install sudo"
    fi
}

# server_names: prints every server of the lab, one per line.
server_names() { find "$SERVERS" -maxdepth 1 -type f -perm -u+x -printf '%f\n' | sort; }

# known_servers NAME…: ends the script at the first name that is not one of them.
known_servers() {
    local name
    for name in "$@"; do
        [ -x "$SERVERS/$name" ] || die "no server '$name' here; there are: $(server_names | paste -sd' ')"
    done
}

# required NAME…: these servers, each after those that it cannot do without, each once.
required() {
    local name
    known_servers "$@"
    for name in "$@"; do
        "$SERVERS/$name" requires
        echo "$name"
    done | awk '!seen[$0]++'
}

# end_as_root PID: asks a process of root to end. The shell's own kill, because a small system has no other.
# shellcheck disable=SC2016 # the inner shell's variable
end_as_root() { as_root sh -c 'kill -s TERM "$1"' sh "$1"; }

# with_servers NAME…: installs and starts them for the time of the script. One that ran before goes on running.
with_servers() {
    local name
    "$ROOT/lab/install" "$@"
    at_exit drop_servers
    for name in $(required "$@"); do
        "$SERVERS/$name" ready || BORROWED+=("$name")
    done
    "$ROOT/lab/up" "$@" >&2
}
BORROWED=()
# The latest first: a server goes before the one that it requires.
drop_servers() {
    local at
    for ((at = ${#BORROWED[@]} - 1; at >= 0; at--)); do "$ROOT/lab/down" "${BORROWED[at]}"; done
    BORROWED=()
}

# pgbench_tables SCALE: fills the tables of pgbench in the lab's PostgreSQL.
PGBENCH=(pgbench -h 127.0.0.1 -p "${OVERHEAD_POSTGRES_PORT:-7432}" -U postgres)
pgbench_tables() { "${PGBENCH[@]}" -q -i -s "$1" bench >/dev/null 2>&1 || die "pgbench cannot make its tables"; }

# can_be_root: true where as_root works without asking a question.
can_be_root() { is_root || { have sudo && sudo -n true 2>/dev/null; }; }

# give_back PATH…: hands what root wrote for us back to the user who asked for it.
give_back() { is_root || as_root chown -R "$(id -u):$(id -g)" "$@"; }

# as_user USER COMMAND…: root becomes USER, or nobody where there is no such user; anyone else stays who they are.
as_user() {
    local user=$1
    shift
    is_root || { "$@"; return; }
    id -u "$user" >/dev/null 2>&1 || user=nobody
    setpriv --reuid "$user" --regid "$(id -g "$user")" --init-groups -- "$@"
}

# at_exit FUNCTION: runs it when the script ends, however it ends; the latest first.
AT_EXIT=()
at_exit() {
    AT_EXIT=("$1" "${AT_EXIT[@]}")
    trap run_at_exit EXIT
}
run_at_exit() {
    local step
    for step in "${AT_EXIT[@]}"; do "$step" || true; done
}

# work_folder: makes WORK, which is deleted in the end; what root has left in it, too.
work_folder() { WORK=$(mktemp -d) && at_exit drop_work_folder; }
drop_work_folder() { rm -rf --one-file-system -- "$WORK" 2>/dev/null || as_root rm -rf --one-file-system -- "$WORK"; }

# wait_until SECONDS COMMAND…: repeats COMMAND until it succeeds; fails when the time is up.
wait_until() {
    local deadline=$((SECONDS + $1))
    shift
    until "$@"; do
        [ "$SECONDS" -lt "$deadline" ] || return 1
        sleep 0.05
    done
}

# serve PORT COMMAND…: a server of the script's own, until it ends or stop_serving is called; fails if its port stays closed. What it
# prints goes to $WORK/serve-PORT.log.
serve() {
    "${@:2}" >"$WORK/serve-$1.log" 2>&1 &
    SERVING+=("$!")
    at_exit end_serving
    wait_until 10 listens "$1"
}
SERVING=()
# stop_serving: ends the last of them, by SIGNAL.
stop_serving() {
    kill -s "${SIGNAL:-TERM}" "${SERVING[-1]}" 2>/dev/null || as_root kill -s "${SIGNAL:-TERM}" "${SERVING[-1]}" 2>/dev/null || true
    wait "${SERVING[-1]}" 2>/dev/null || true
    unset 'SERVING[-1]'
}
end_serving() { while [ "${#SERVING[@]}" -gt 0 ]; do stop_serving; done; }

# listens PORT: something listens there on IPv4; it is not connected to.
listens() { awk -v end="$(printf ':%04X' "$1")" '$4 == "0A" && substr($2, 9) == end { found = 1 } END { exit !found }' /proc/net/tcp; }

# port_open PORT: something accepts connections on 127.0.0.1:PORT.
port_open() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# ---------------------------------------------------------------------------------------------------------------------
# Packages

# missing_packages PACKAGE…: those that are not installed, one per line.
missing_packages() {
    local package
    for package in "$@"; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || printf '%s\n' "$package"
    done
}

# in_archive PACKAGE: the machine's sources have it. A reader that ends early would end apt-cache, and pipefail tell of that.
in_archive() { LC_ALL=C apt-cache policy "$1" 2>/dev/null | grep 'Candidate: [^(]' >/dev/null; }

# release: the code name of this Debian.
# shellcheck source=/dev/null
release() { (. /etc/os-release && echo "${VERSION_CODENAME:-}"); }

# debian_mirror: the one that the machine already uses.
debian_mirror() {
    # shellcheck disable=SC2016 # apt expands it
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Component: main' | grep '/debian/$' | sed -n 1p ||
        die "no Debian mirror among the sources of this machine"
}

# with_backports: apt_install also reads the backports of Debian 12, for this one installation, from the mirror that the
# machine already uses. The machine's own list of sources stays as it is.
with_backports() {
    local mirror
    mirror=$(debian_mirror) || exit
    SOURCES=$(mktemp -d)
    at_exit drop_sources
    chmod 755 "$SOURCES"
    mkdir "$SOURCES/parts" "$SOURCES/lists"
    find /etc/apt/sources.list.d -maxdepth 1 \( -name '*.list' -o -name '*.sources' \) -exec cp -t "$SOURCES/parts" {} +
    printf 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s bookworm-backports main\n' \
        "$mirror" >"$SOURCES/parts/backports.list"
    APT_OPTIONS=(-o "Dir::Etc::SourceParts=$SOURCES/parts" -o "Dir::State::Lists=$SOURCES/lists")
}
drop_sources() { rm -rf -- "$SOURCES"; }

# apt_install PACKAGE…: installs what is missing and nothing else. Services that come with the packages are neither
# started nor left to start at the next boot; services that were there before are not touched.
# APT_OPTIONS (an array) goes to every call of apt-get.
apt_install() {
    local -a missing services
    mapfile -t missing < <(missing_packages "$@")
    [ "${#missing[@]}" -gt 0 ] || return 0
    have apt-get || die "missing: ${missing[*]}; this is not a Debian system, please install them by its own means"
    say "installing ${missing[*]}"
    mapfile -t services < <(services_of "${missing[@]}")
    hold_services "${services[@]}"
    local status=0
    apt_get update -q && apt_get install -q -y --no-install-recommends "${missing[@]}" || status=$?
    release_services "${services[@]}"
    [ "$status" -eq 0 ] || die "apt-get could not install ${missing[*]}"
}

# A new machine updates itself when it first starts: that is waited for, five minutes at most.
apt_get() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get "${APT_OPTIONS[@]}" -o Dpkg::Use-Pty=0 -o Acquire::Retries=3 \
        -o DPkg::Lock::Timeout=300 "$@" >&2
}
APT_OPTIONS=()

# services_of PACKAGE…: the system services that these packages would start.
services_of() {
    local package
    for package in "$@"; do
        case $package in
            postgresql*) echo postgresql ;;
            nginx*) echo nginx ;;
            memcached | redis-server | valkey-server) echo "$package" ;;
        esac
    done | sort -u
}

POLICY=/usr/sbin/policy-rc.d
POLICY_MARK='written by the lab of overhead'

# hold_services SERVICE…: forbids package scripts to start these, and just these. A policy that is already there stays.
hold_services() {
    [ $# -gt 0 ] && [ ! -e "$POLICY" ] || return 0
    local pattern
    pattern=$(printf '%s*|' "$@")
    as_root tee "$POLICY" >/dev/null <<POLICY
#!/bin/sh
# $POLICY_MARK, removed when the installation ends
for word in "\$@"; do
    case \$word in ${pattern%|}) exit 101 ;; esac
done
exit 0
POLICY
    as_root chmod 755 "$POLICY"
    at_exit release_services
}

# release_services SERVICE…: takes the policy away again, and keeps new services from starting at boot.
release_services() {
    if grep -qs "$POLICY_MARK" "$POLICY"; then as_root rm -f "$POLICY"; fi
    local service
    for service in "$@"; do
        have systemctl || continue
        as_root systemctl disable --quiet "$service" 2>/dev/null || continue
        say "$service was installed for the lab: it is not started, and does not start at boot"
    done
}

# go_bin: prints a Go that fetches the toolchain that go.mod requires: 1.21 or later.
go_bin() {
    local program
    for program in "$(command -v go)" /usr/lib/go-1.23/bin/go /usr/local/go/bin/go; do
        case $("$program" env GOVERSION 2>/dev/null) in go1.2[1-9]* | go1.[3-9]*) echo "$program" && return ;; esac
    done
    return 1
}

# go_packages: what there is to install for that. Debian 12 has a Go that is new enough in its backports only.
go_packages() { go_bin >/dev/null || if in_archive golang-1.23-go; then echo golang-1.23-go; else echo golang-go; fi; }
