#!/bin/sh
# Checks the tree against its own conventions and reports in TAP, one line per rule.
# usage: check.sh ROOT
#
# To add a rule, write a function that prints one "file:line: what" for each violation, add it to the table at the
# end, and add a violation of it to violations.sh.
set -u
export LC_ALL=C.UTF-8
cd "${1:?usage: check.sh ROOT}" || exit 2
work=$(mktemp -d "${TMPDIR:-/tmp}/style.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT

# ---- what is checked ----

folders=
for folder in client daemon kernels_db preamble proto tests; do
    [ -d "$folder" ] && folders="$folders $folder"
done
# shellcheck disable=SC2086 # a list of words
find $folders -type f \( -name '*.c' -o -name '*.h' -o -name '*.def' \) | sort >"$work/all"
grep '\.[ch]$' "$work/all" >"$work/sources"
grep '\.h$' "$work/all" >"$work/headers"

# Every line of C as "file:line:code", without comments and the insides of strings.
xargs -r awk '
    FNR == 1 { comment = 0 }
    {
        line = $0; code = ""
        if (!comment) gsub(/"([^"\\]|\\.)*"/, "\"\"", line)
        for (;;) {
            if (comment) {
                end = index(line, "*/")
                if (!end) break
                line = substr(line, end + 2); comment = 0
            }
            block = index(line, "/*"); rest = index(line, "//")
            if (rest && (!block || rest < block)) { code = code substr(line, 1, rest - 1); break }
            if (!block) { code = code line; break }
            code = code substr(line, 1, block - 1); line = substr(line, block + 2); comment = 1
        }
        print FILENAME ":" FNR ":" code
    }' <"$work/sources" >"$work/code"

# Every include as "file:line:<name>" or "file:line:"name"".
xargs -r awk '/^[ \t]*#[ \t]*include[ \t]*[<"]/ {
        name = $0; sub(/^[ \t]*#[ \t]*include[ \t]*/, "", name); sub(/[>"][^>"]*$/, "&", name)
        end = substr(name, 1, 1) == "<" ? ">" : "\""
        name = substr(name, 1, 1 + index(substr(name, 2), end))
        print FILENAME ":" FNR ":" name
    }' <"$work/all" >"$work/includes"

# ---- the rules ----

# Who may include whom; the first prefix of a file that matches is its row. "own" is the row's own folder.
cat >"$work/directions" <<'EOF'
proto/            own
kernels_db/       own proto/
preamble/         own
daemon/resolve/   own proto/ preamble/ kernels_db/kernel_key.h daemon/launch/extent.h
daemon/launch/    own proto/
daemon/compiler/  own proto/ preamble/ daemon/sandbox/ kernels_db/kernel_key.h
daemon/sandbox/   own proto/
daemon/base/      own proto/
daemon/executor/  own proto/ daemon/launch/ daemon/base/ daemon/sandbox/ preamble/host/abi.h kernels_db/kernel_key.h
                  daemon/resolve/registers.h
client/           own proto/ daemon/launch/ daemon/resolve/ kernels_db/kernel_key.h
daemon/           own proto/ kernels_db/ preamble/ !daemon/compiler/ !daemon/executor/ daemon/compiler/worker.h
                  daemon/executor/executor.h
EOF
includes_go_one_way() {
    awk -v rules="$work/directions" '
        BEGIN {
            while ((getline row < rules) > 0) {
                if (row !~ /^ /) count[++n] = 0 # else it goes on with the row before
                words = split(row, word)
                for (i = 1; i <= words; i++) may[n, ++count[n]] = word[i]
            }
        }
        {
            split($0, at, ":"); name = substr($0, length(at[1]) + length(at[2]) + 3)
            if (substr(name, 1, 1) != "\"") next
            name = substr(name, 2, length(name) - 2)
            for (r = 1; r <= n && index(at[1], may[r, 1]) != 1; r++);
            if (r > n) next
            good = 0
            for (i = 2; i <= count[r]; i++) {
                prefix = may[r, i] == "own" ? may[r, 1] : may[r, i]
                if (substr(prefix, 1, 1) == "!") { if (index(name, substr(prefix, 2)) == 1) good = 0 }
                else if (index(name, prefix) == 1) good = 1
            }
            if (!good) print at[1] ":" at[2] ": " may[r, 1] " may not include " name
        }' "$work/includes"
}

# No CUDA header anywhere: the libraries are opened at run time, through tables. libuv belongs to the front, SQLite to
# the database.
libraries_stay_in_their_process() {
    grep -E ':<(nvrtc|cuda|cuda_[a-z_]*|nvPTXCompiler|nvJitLink)\.h>$' "$work/includes" | sed 's/$/ is a CUDA header/'
    grep -E '^(proto|kernels_db|preamble|client|daemon/(resolve|launch|compiler))/.*:<uv\.h>$' "$work/includes" |
        sed 's/$/ is for the front alone/'
    grep -E ':<sqlite3\.h>$' "$work/includes" | grep -Ev '^(kernels_db|tests)/' | sed 's/$/ is for kernels_db alone/'
    grep -E '[^_[:alnum:]]dlm?open *\(' "$work/code" |
        grep -Ev '^(daemon/(compiler|executor|launch)|client|tests)/' | sed 's/$/ loads a library in the front/'
}

includes_start_at_the_root() {
    grep -E ':"' "$work/includes" | grep -Ev ':"(client|daemon|kernels_db|preamble|proto|tests)/[^"]*"$'
    grep -E ':"[^"]*(^|/)\.\.?/' "$work/includes"
}

guards_are_paths() {
    xargs -r awk '
        function finish() {
            if (file != "" && !(opened && defined)) print file ":1: the guard must be " guard
        }
        FNR == 1 {
            finish(); file = FILENAME; opened = defined = 0
            guard = toupper(file); gsub(/[^A-Z0-9]/, "_", guard)
        }
        $1 == "#ifndef" && $2 == guard { opened = 1 }
        $1 == "#define" && $2 == guard { defined = 1 }
        /^#pragma once/ { print file ":" FNR ": " $0 }
        END { finish() }' <"$work/headers"
}

headers_say_what_they_are_for() {
    xargs -r awk '
        FNR == 1 { first = $0 }
        FNR == 2 && (first " " $0) !~ /^\/(\/|\*|\* +\*) ?[A-Za-z0-9]/ {
            print FILENAME ":1: the first line must say what the header is for"
        }' <"$work/headers"
}

files_are_small() {
    xargs -r wc -l <"$work/sources" | awk '$2 ~ /\.c$/ && $1 > 800 { print $2 ":800: " $1 " lines, the limit is 800" }'
}

functions_are_small() {
    awk '{
            split($0, at, ":"); text = substr($0, length(at[1]) + length(at[2]) + 3)
            if (text ~ /^{/) { start = at[2]; file = at[1] }
            if (text ~ /^}/ && start && file == at[1]) {
                lines = at[2] - start - 1; start = 0
                if (lines > 100) print file ":" at[2] - lines - 1 ": a function of " lines " lines, the limit is 100"
            }
        }' "$work/code"
}

# Calls that overflow, race, or hide an error; the second half may be used nowhere but where it is named.
no_forbidden_calls() {
    call='(^|[^_[:alnum:]>.])'
    always='gets|system|popen|tmpnam|mktemp|alloca|strtok|gethostbyname'
    unsafe='strcpy|strncpy|strcat|sprintf|vsprintf|atoi|atol|atof|signal|rand|srand'
    grep -E ":.*:.*$call($always) *\(" "$work/code" | sed 's/$/   (forbidden call)/'
    grep -E ":.*:.*$call($unsafe) *\(" "$work/code" | grep -Ev '^tests/|signal\([A-Z]*, SIG_(IGN|DFL)\)' |
        sed 's/$/   (forbidden call)/'
    grep -E "^tests/[^:]*:.*:.*$call(sleep|usleep) *\(" "$work/code" | sed 's/$/   (tests wait for conditions)/'
    grep -E "^daemon/[^:]*:.*:.*$call(fork|vfork|sleep|usleep|nanosleep) *\(" "$work/code" |
        grep -Ev '^daemon/(compiler|executor)/' | sed 's/$/   (the front neither forks nor sleeps)/'
}

# Descriptors are close-on-exec from birth. A call may go on for two lines.
descriptors_close_on_exec() {
    opens='open|openat|socket|socketpair|accept|accept4|pipe|pipe2|dup|memfd_create|eventfd|epoll_create1|mkstemp'
    opens="$opens|mkostemp|recvmsg|timerfd_create|signalfd|inotify_init1"
    grep -Ev '^tests/' "$work/code" | awk -v opens="(^|[^_A-Za-z0-9>.])($opens) *[(]" '
        {
            split($0, at, ":"); text = substr($0, length(at[1]) + length(at[2]) + 3)
            if (waiting && at[1] == file) { statement = statement text; if (--waiting == 0 || text ~ /;/) judge() }
            if (match(text, opens)) {
                file = at[1]; line = at[2]; statement = substr(text, RSTART); waiting = 2
                if (text ~ /;/) judge()
            }
        }
        function judge() {
            waiting = 0
            if (statement !~ /CLOEXEC/) print file ":" line ": without CLOEXEC: " statement
        }'
    xargs -r grep -nE '(^|[^_[:alnum:]])fopen\([^;]*"[rwab+]*"\)' <"$work/sources" /dev/null |
        grep -v '^tests/' | sed 's/$/   (fopen without "e")/'
}

lines_are_tidy() {
    # shellcheck disable=SC2086
    find $folders docs scripts systemd meson.build meson_options.txt README.md -type f 2>/dev/null |
        grep -E '(\.(c|h|def|cu|cuh|sh|py|md|json|in)|meson[^/]*)$|^(scripts|systemd)/' | sort >"$work/texts"
    xargs -r grep -nHE '[[:space:]]$' <"$work/texts" | sed 's/^\([^:]*:[0-9]*\):.*/\1: space at the end of the line/'
    xargs -r grep -nH "$(printf '\t')" <"$work/texts" | sed 's/^\([^:]*:[0-9]*\):.*/\1: a tab/'
    # The last byte of each file; only when they are not all newlines, whose it is.
    xargs -r tail -q -c 1 <"$work/texts" >"$work/ends"
    [ "$(tr -d '\n' <"$work/ends" | wc -c)" -eq 0 ] || while read -r text; do
        [ -z "$(tail -c 1 "$text")" ] || echo "$text: no newline at the end"
    done <"$work/texts"
    # Kernels in circulation are as they are.
    grep -Ev '\.(md|def|json)$|^tests/fusions/compat/' "$work/texts" | xargs -r grep -nHE '^.{121}' |
        sed 's/^\([^:]*:[0-9]*\):.*/\1: longer than 120/'
}

formatted() {
    xargs -r "$clang_format" --dry-run <"$work/sources" 2>&1 |
        grep 'clang-format-violations' | sed 's/ warning: .*/ not formatted/'
}

# A source that no meson.build names, in its folder or the one above, is never built.
every_source_is_built() {
    grep '\.c$' "$work/sources" | while read -r file; do
        base=$(basename "$file" .c)
        folder=$(dirname "$file")
        cat "$folder/meson.build" "$folder/../meson.build" 2>/dev/null |
            grep -Eq "(^|[^_[:alnum:]])(${base}|${base%_test})([^_[:alnum:]]|\$)" ||
            echo "$file:1: no meson.build in $folder or above names it"
    done
}

# A row of docs/guarantees.md that says "proven" or "in part" names, in backticks, tests that exist.
proofs_exist() {
    find tests -type f -name '*.c' -exec cat {} + | tr '\n' ' ' |
        grep -oE '(Test|ParameterizedTest|Theory)\([^;{]*' | grep -oE '[A-Za-z0-9_]+' | sort -u >"$work/tests"
    state='[|][^|]*(^|[^a-z])(proven|in part)([^a-z]|$)'
    awk -v state="$state" '/^\|/ && tolower($0) ~ state { print FNR "\t" $0 }' docs/guarantees.md |
        while IFS="$(printf '\t')" read -r line row; do
            case $row in *[Nn]ot\ proven* | *unproven*) continue ;; esac
            echo "$row" | grep -oE '`[A-Za-z_][A-Za-z0-9_]*`' | tr -d '`' >"$work/named"
            found=0
            while read -r name; do
                if grep -qx "$name" "$work/tests"; then
                    found=1
                elif echo "$name" | grep -Eq '^[A-Z][0-9]+[a-z]?_'; then
                    echo "docs/guarantees.md:$line: there is no test $name"
                fi
            done <"$work/named"
            [ $found = 1 ] || echo "docs/guarantees.md:$line: names no test that exists: $row"
        done
}

# Every method, error and word of a message that clients see is in proto/PROTOCOL.md.
protocol_is_described() {
    {
        sed -n 's/^METHOD([^,]*, "\([^"]*\)".*/\1/p' proto/methods.def
        sed -n 's/^ERROR(\([^,]*\),.*/\1/p' proto/errors.def
        sed -n 's/^VALUE([^"]*"\([^"]*\)".*/\1/p' proto/enums.def
        grep -Ev '^(MESSAGE|/\*| \*)|\(worker_' proto/messages.def | sed -n 's/^[A-Z]*([^,]*, *\([a-z0-9_]*\).*/\1/p'
    } | sort -u >"$work/wire"
    grep -oE '[A-Za-z0-9_.]+' proto/PROTOCOL.md | sed 's/\.$//' | sort -u >"$work/described"
    comm -23 "$work/wire" "$work/described" | sed 's/^/proto\/PROTOCOL.md:1: does not speak of /'
}

# The README's C program is the one that is built and run.
readme_shows_the_example() {
    sed -n '/^```c$/,/^```$/p' README.md | sed '1d;$d' | diff - client/examples/first.c |
        sed -n 's/^\([0-9,]*[acd][0-9,]*\)$/README.md:1: differs from client\/examples\/first.c at \1/p'
}

# ---- the report ----

clang_format=
for candidate in clang-format-14 clang-format; do
    if [ -z "$clang_format" ] && command -v "$candidate" >/dev/null &&
        "$candidate" --version | grep -q 'version 14\.'; then
        clang_format=$candidate
    fi
done

number=0
report() { # RULE [REASON TO SKIP]
    number=$((number + 1))
    if [ -n "${2:-}" ]; then
        echo "ok $number - $1 # SKIP $2"
        return
    fi
    "$1" >"$work/violations" 2>&1
    if [ -s "$work/violations" ]; then
        echo "not ok $number - $1"
        echo "  ---"
        head -n 20 "$work/violations" | sed 's/^/  /'
        echo "  ..."
    else
        echo "ok $number - $1"
    fi
}

echo "1..15"
report includes_go_one_way
report libraries_stay_in_their_process
report includes_start_at_the_root
report guards_are_paths
report headers_say_what_they_are_for
report files_are_small
report functions_are_small
report no_forbidden_calls
report descriptors_close_on_exec
report lines_are_tidy
if [ -n "$clang_format" ]; then report formatted; else report formatted "clang-format 14 is not installed"; fi
report every_source_is_built
report proofs_exist
report protocol_is_described
report readme_shows_the_example
