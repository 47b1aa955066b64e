# What scripts/quickstart and scripts/test share: install what is missing, find NVRTC, build. Sourced, never run.
# shellcheck shell=bash

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
DEPS=$ROOT/.deps # ours alone, ignored by git: NVRTC from its wheel, logs of installs
export PYTHONDONTWRITEBYTECODE=1

# ---- output ----

if [[ -t 1 && -z ${NO_COLOR:-} && ${TERM:-dumb} != dumb ]]; then
    BOLD=$'\e[1m' DIM=$'\e[2m' RED=$'\e[31m' GREEN=$'\e[32m' YELLOW=$'\e[33m' PLAIN=$'\e[0m'
else
    BOLD='' DIM='' RED='' GREEN='' YELLOW='' PLAIN=''
fi

step() { printf '%s%s%s\n' "$BOLD" "$*" "$PLAIN"; }
note() { printf '  %s%s%s\n' "$DIM" "$*" "$PLAIN"; }
good() { printf '  %sok%s    %s\n' "$GREEN" "$PLAIN" "$*"; }
warn() { printf '  %snote%s  %s\n' "$YELLOW" "$PLAIN" "$*"; }
die() {
    printf '%serror:%s %s\n' "$RED" "$PLAIN" "$*" >&2
    exit 1
}

# run_logged LOG COMMAND…: quiet when it works, the end of the log when it does not.
run_logged() {
    local log=$1
    shift
    mkdir -p "$(dirname "$log")"
    "$@" >"$log" 2>&1 </dev/null && return 0
    printf '%serror:%s %s failed; the end of %s:\n' "$RED" "$PLAIN" "$1" "$log" >&2
    tail -n 40 "$log" >&2
    return 1
}

# ---- packages ----

# What the build needs: how to see that it is there, and the Debian package that brings it.
BUILD_NEEDS="
command gcc gcc
command g++ g++
header stdio.h libc6-dev
command meson meson
command ninja ninja-build
command pkg-config pkg-config
module libuv libuv1-dev
module msgpack libmsgpack-dev
module sqlite3 libsqlite3-dev
module libsodium libsodium-dev
module libzstd libzstd-dev
module libseccomp libseccomp-dev
module jansson libjansson-dev
module libxxhash libxxhash-dev
header boost/context/fiber.hpp libboost-context-dev
header uthash.h uthash-dev
module criterion libcriterion-dev
"
# What continuous integration checks with beside that. The clang package only recommends its sanitizer runtime.
CI_NEEDS="
command clang clang
package libclang-rt-14-dev libclang-rt-14-dev
command clang-format-14 clang-format-14
command systemd-analyze systemd
"

have() { # KIND NAME
    case $1 in
    command) command -v "$2" >/dev/null ;;
    header) [[ -e /usr/include/$2 ]] ;;
    module) command -v pkg-config >/dev/null && pkg-config --exists "$2" ;;
    package) dpkg-query -W -f='${Status}' "$2" 2>/dev/null | grep -q ' installed$' ;;
    esac
}

# install_missing NEEDS: installs the packages whose probe fails; does nothing, fast, when there are none.
install_missing() {
    local missing=() kind name package as_root=()
    while read -r kind name package; do
        [[ -z $kind ]] || have "$kind" "$name" || missing+=("$package")
    done <<<"$1"
    ((${#missing[@]})) || return 0

    command -v apt-get >/dev/null ||
        die "these are missing, and there is no apt-get to install them (Debian's names): ${missing[*]}"
    if [[ $(id -u) != 0 ]]; then
        command -v sudo >/dev/null ||
            die "these packages are missing; run 'apt-get install ${missing[*]}' as root, or install sudo"
        as_root=(sudo)
    fi
    step "Installing ${#missing[@]} packages"
    note "${missing[*]}"
    apt_get() {
        run_logged "$DEPS/log/apt-$1.log" ${as_root[@]+"${as_root[@]}"} \
            env DEBIAN_FRONTEND=noninteractive apt-get -q -o Dpkg::Use-Pty=0 -o Acquire::Retries=3 "$@"
    }
    apt_get update || die "apt-get update failed"
    apt_get install -y --no-install-recommends "${missing[@]}" || die "apt-get install failed"
    while read -r kind name package; do
        [[ -z $kind ]] || have "$kind" "$name" || die "$package is installed, and still there is no $kind $name"
    done <<<"$1"
}

# ---- NVRTC ----

NVRTC_MINOR=13.0 # of the wheel; its exact version and hashes are in scripts/nvrtc-requirements.txt

# Prints the first NVRTC library of an installed CUDA toolkit, the newest first.
find_toolkit_nvrtc() {
    local directory library
    for directory in ${CUDA_HOME:+"$CUDA_HOME"} ${CUDA_PATH:+"$CUDA_PATH"} /usr/local/cuda \
        $(printf '%s\n' /usr/local/cuda-1[2-9]* | sort -rV); do
        for library in "$directory"/lib64/libnvrtc.so.1[3-9] "$directory"/lib64/libnvrtc.so.12; do
            [[ -f $library ]] || continue
            printf '%s\n' "$library"
            return 0
        done
    done
    return 1
}

# Sets FUSIOND_NVRTC: what the caller has set, an installed toolkit, else the wheel, unpacked into .deps/.
need_nvrtc() {
    local wheel=$DEPS/nvrtc-$NVRTC_MINOR library
    if [[ -n ${FUSIOND_NVRTC:-} ]]; then
        [[ -f $FUSIOND_NVRTC ]] || die "FUSIOND_NVRTC names '$FUSIOND_NVRTC', which is no file"
    elif library=$(find_toolkit_nvrtc); then
        FUSIOND_NVRTC=$library
    else
        FUSIOND_NVRTC=$wheel/nvidia/cu13/lib/libnvrtc.so.13
        [[ -f $FUSIOND_NVRTC ]] || fetch_nvrtc "$wheel"
    fi
    export FUSIOND_NVRTC
    note "NVRTC: ${FUSIOND_NVRTC#"$ROOT"/}"
}

fetch_nvrtc() {
    local wheel=$1
    python3 -c 'import ensurepip, venv' 2>/dev/null || install_missing "package python3-venv python3-venv"
    step "Fetching NVRTC $NVRTC_MINOR (no CUDA toolkit found)"
    rm -rf "$DEPS/venv" "$wheel" "$wheel.part"
    run_logged "$DEPS/log/venv.log" python3 -m venv "$DEPS/venv" || die "could not make a Python environment"
    run_logged "$DEPS/log/pip.log" "$DEPS/venv/bin/pip" install --no-deps --no-compile --require-hashes \
        --disable-pip-version-check --target "$wheel.part" -r "$ROOT/scripts/nvrtc-requirements.txt" ||
        die "the wheel could not be installed; set FUSIOND_NVRTC to a libnvrtc.so to do without it"
    mv "$wheel.part" "$wheel"
    rm -rf "$DEPS/venv"
    [[ -f $FUSIOND_NVRTC ]] || die "the wheel has no ${FUSIOND_NVRTC#"$wheel"/}"
}

# ---- build ----

# The options of build/, one a line: continuous integration takes no warnings.
build_options() {
    if [[ ${CI:-} == true ]]; then printf '%s\n' -Dwerror=true; fi
}

# build DIRECTORY [MESON OPTION…]: configures when needed and compiles. Second runs take a moment.
build() {
    local directory=$ROOT/$1 wanted="${*:2} CC=${CC:-}" log=$DEPS/log/$1.log
    shift
    if [[ ! -f $directory/build.ninja || $(cat "$directory/.options" 2>/dev/null) != "$wanted" ]]; then
        rm -rf "$directory"
        run_logged "$log" meson setup "$directory" "$ROOT" "$@" || return 1
        printf '%s\n' "$wanted" >"$directory/.options"
    fi
    run_logged "$log" ninja -C "$directory" || return 1
}
