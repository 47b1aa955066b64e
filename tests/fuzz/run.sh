#!/bin/sh
# Runs one fuzz target over its saved corpus and then on for some seconds. What it finds new stays in the build folder.
# usage: run.sh TARGET CORPUS SECONDS
set -eu
target=$1 corpus=$2 seconds=$3
found=$target.found
mkdir -p "$found"
set -- "$found"
[ -d "$corpus" ] && set -- "$@" "$corpus"
# Replay first: a saved input that fails again must not depend on the fuzzer's luck.
"$target" -runs=0 -rss_limit_mb=2048 -timeout=10 "$@"
exec "$target" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 -print_final_stats=1 -verbosity=0 \
    -artifact_prefix="$target." "$@"
