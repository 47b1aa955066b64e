#!/bin/sh
# The compile rows run, and what they print can be read: one line per row in TAP. No figure is judged.
# usage: smoke.sh FUSIOND-BENCH
set -u
bench=${1:?usage: smoke.sh FUSIOND-BENCH}
work=$(mktemp -d "${TMPDIR:-/tmp}/bench-smoke.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
"$bench" --quick compile >"$work/rows" 2>"$work/errors"
status=$?
if grep -q COMPILER_UNAVAILABLE "$work/errors"; then
    echo "1..0 # SKIP there is no NVRTC"
    exit 0
fi

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

echo "1..9"
{ [ $status -eq 0 ] || { echo "exit status $status"; cat "$work/errors"; }; } >"$work/output"
report P_bench_ends_well
# name value unit, and then a ratio with its base's name and value, or two dashes.
grep -v -e '^#' -e '^name  *value  *unit  *ratio  *base$' "$work/rows" | awk '
    function is_number(word) { return word ~ /^-?[0-9]+\.[0-9]+$/ }
    !(is_number($2) && ((NF == 6 && is_number($4) && is_number($6)) || (NF == 5 && $4 == "-" && $5 == "-")))
    END { if (!NR) print "no rows" }' >"$work/output"
report P_rows_can_be_read
# A row, or a comment that says why there is none.
for row in P5 P6 P6b P7 P8 P16 P17; do
    grep -q -e "^$row\." -e "^# $row: " "$work/rows" || echo "no line of $row" >"$work/missing"
    cat "$work/missing" >"$work/output" 2>/dev/null
    rm -f "$work/missing"
    report "${row}_is_printed"
done
