#!/bin/sh
# The systemd units: no line that systemd does not understand, and a system service that is well shut in. TAP.
# usage: units.sh SYSTEMD-FOLDER
set -u
units=${1:?usage: units.sh SYSTEMD-FOLDER}
if ! command -v systemd-analyze >/dev/null; then
    echo "1..0 # SKIP systemd-analyze is not installed"
    exit 0
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/units.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
export SYSTEMD_LOG_LEVEL=warning XDG_RUNTIME_DIR="$work"

number=0
report() { # NAME: the verdict is whether $work/output is empty
    number=$((number + 1))
    if [ -s "$work/output" ]; then
        printf 'not ok %d - %s\n  ---\n' "$number" "$1"
        sed 's/^/  /' "$work/output"
        echo "  ..."
    else
        echo "ok $number - $1"
    fi
}

echo "1..3"
for manager in system user; do
    mkdir "$work/$manager"
    cp "$units/$manager/fusiond.socket" "$work/$manager/"
    # The program need not be installed for this.
    sed 's|@bindir@/fusiond|/bin/true|' "$units/$manager/fusiond.service.in" >"$work/$manager/fusiond.service"
    scope=--$manager
    systemd-analyze "$scope" --man=no verify "$work/$manager/fusiond.socket" "$work/$manager/fusiond.service" 2>&1 |
        grep -i fusiond >"$work/output"
    report "verify_$manager"
done

# Of 10; what is left is what CUDA needs: device nodes, /proc, a host's network namespace for nothing but Unix sockets.
limit=2.0
systemd-analyze security --no-pager --offline=true "$work/system/fusiond.service" >"$work/security" 2>&1
exposure=$(sed -n 's/.*exposure level.*: \([0-9.]*\) .*/\1/p' "$work/security")
: >"$work/output"
awk -v exposure="${exposure:-10}" -v limit="$limit" 'BEGIN { exit !(exposure + 0 <= limit + 0) }' || {
    echo "exposure ${exposure:-unknown}, the limit is $limit"
    grep '✗' "$work/security" | sed 's/  *[^ ]*$//'
} >"$work/output"
report "exposure_of_the_system_service_${exposure:-unknown}"
