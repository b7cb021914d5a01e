# shellcheck shell=bash
# What is taken from Debian's archive without being installed: lists, packages and sources lie below $ARCHIVE, and those of the
# machine stay as they are. Sourced after common.sh; the caller sets ARCHIVE.

# The archive by lists of its own.
apt_own() {
    local tool=$1 options=(
        -o "Dir::Etc::SourceList=$ARCHIVE/apt/sources.list" -o "Dir::Etc::SourceParts=$ARCHIVE/apt/parts"
        -o "Dir::State::Lists=$ARCHIVE/apt/lists" -o "Dir::State::status=$ARCHIVE/apt/status" -o "Dir::Cache=$ARCHIVE/apt/cache"
        -o APT::Architecture=amd64 -o APT::Architectures::=amd64 -o APT::Architectures::=arm64
        -o Acquire::Languages=none -o Acquire::Retries=3 -o APT::Sandbox::User=root
    )
    shift
    LC_ALL=C "$tool" "${options[@]}" "$@"
}

# archive RELEASE…: the lists of these releases, from the mirror that the machine uses, or else from Debian's own. The word
# `sources` behind a release adds its sources.
archive() {
    local mirror release former='' keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    # shellcheck disable=SC2016 # apt expands it
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep '/debian/$' | sed -n 1p || echo https://deb.debian.org/debian/)
    mkdir -p "$ARCHIVE/apt/parts" "$ARCHIVE/apt/lists/partial" "$ARCHIVE/apt/cache/archives/partial"
    : >"$ARCHIVE/apt/status"
    for release in "$@"; do
        case $release in
            sources) echo "deb-src [signed-by=$keyring] $mirror $former main" ;;
            *-security) echo "deb [signed-by=$keyring] ${mirror%debian/}debian-security/ $release main" ;;
            *) echo "deb [signed-by=$keyring] $mirror $release main" ;;
        esac
        former=$release
    done >"$ARCHIVE/apt/sources.list"
    # Lists of the last hours will do; a package that is gone from the mirror meanwhile is found to be so.
    if [ -z "$(find "$ARCHIVE/apt/lists" -name '*_Packages*' -mmin -360 -print -quit)" ]; then lists "$mirror"; fi
}
lists() {
    apt_own apt-get update -q >"$ARCHIVE/apt.log" 2>&1 || { tail -n 5 "$ARCHIVE/apt.log" >&2; die "no list of packages from $1"; }
}

# newest PACKAGE ARCHITECTURE RELEASE: its newest version there; bookworm's security updates belong to bookworm.
newest() {
    apt_own apt-cache madison "$1:$2" | awk -F ' *[|] *' -v release="$3" '
        $3 ~ / Sources$/ { next }
        { split($3, at, " "); sub(/-security$/, "", at[2]); sub(/\/main$/, "", at[2]); sub(/-security$/, "", at[2]) }
        at[2] == release { sub(/^ */, "", $2); print $2 }' | sort -V | tail -n 1
}

# unpacked PACKAGE ARCHITECTURE VERSION: prints the folder with its content; fetched once.
unpacked() {
    local folder=$ARCHIVE/packages/$1_$3_$2 part
    if [ ! -d "$folder" ]; then
        part=$(mktemp -d "$ARCHIVE/part.XXXXXX")
        (cd "$part" && apt_own apt-get download -q "$1:$2=$3" >"$ARCHIVE/apt.log" 2>&1) || { tail -n 5 "$ARCHIVE/apt.log" >&2; die "$1 $3 for $2 cannot be fetched"; }
        dpkg-deb -x "$part"/*.deb "$part/content"
        mkdir -p "$ARCHIVE/packages"
        mv -T -- "$part/content" "$folder"
        rm -rf -- "$part"
    fi
    echo "$folder"
}

# unpacked_source PACKAGE RELEASE: prints the folder with its source, Debian's patches applied; fetched once.
unpacked_source() {
    local folder=$ARCHIVE/packages/$1_$2_source part
    if [ ! -d "$folder" ]; then
        part=$(mktemp -d "$ARCHIVE/part.XXXXXX")
        (cd "$part" && apt_own apt-get source -q "$1/$2" >"$ARCHIVE/apt.log" 2>&1) || { tail -n 5 "$ARCHIVE/apt.log" >&2; die "the source of $1 in $2 cannot be fetched"; }
        mkdir -p "$ARCHIVE/packages"
        mv -T -- "$part"/*/ "$folder"
        rm -rf -- "$part"
    fi
    echo "$folder"
}

# bare_debian RELEASE FOLDER [OPTION…]: makes a minimal root there, which reaches mirrors and registries like this machine.
bare_debian() {
    mmdebstrap --quiet --variant=minbase "${@:3}" "$1" "$2" "$(debian_mirror)" &&
        cp -r /etc/apt/apt.conf.d/. "$2/etc/apt/apt.conf.d/" &&
        cp /etc/ssl/certs/ca-certificates.crt "$2/etc/ssl/certs/" && cp /etc/resolv.conf /etc/hosts "$2/etc/" &&
        { [ ! -e /etc/pip.conf ] || cp /etc/pip.conf "$2/etc/"; }
}

# drop_parts: what an interrupted `unpacked` has left.
drop_parts() { rm -rf -- "$ARCHIVE"/part.*; }

# machine ARCHITECTURE: what the kernel and compilers call Debian's architecture. architecture MACHINE: the other way.
machine() { case $1 in amd64) echo x86_64 ;; arm64) echo aarch64 ;; esac; }
architecture() { case $1 in x86_64) echo amd64 ;; aarch64) echo arm64 ;; *) die "no '$1' here; there are: x86_64 aarch64" ;; esac; }
