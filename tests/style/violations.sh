#!/bin/sh
# Breaks every rule of check.sh on purpose, in a small tree of its own: a rule that cannot fail checks nothing.
# usage: violations.sh CHECK.SH CLANG_FORMAT_FILE
set -u
check=${1:?usage: violations.sh CHECK.SH CLANG_FORMAT_FILE}
format=${2:?usage: violations.sh CHECK.SH CLANG_FORMAT_FILE}
work=$(mktemp -d "${TMPDIR:-/tmp}/style-violations.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT

# A tree without faults.
fresh() {
    rm -rf "$work/tree"
    mkdir -p "$work/tree/daemon/compiler" "$work/tree/proto" "$work/tree/kernels_db" "$work/tree/client" \
        "$work/tree/tests/unit" "$work/tree/docs"
    cd "$work/tree" || exit 2
    echo "DisableFormat: true" >.clang-format # only the rule about the format minds
    cat >proto/frame.h <<'EOF'
/* Frames. */
#ifndef PROTO_FRAME_H
#define PROTO_FRAME_H

int frame_read(int fd);

#endif
EOF
    cat >proto/frame.c <<'EOF'
#include "proto/frame.h"

#include <fcntl.h>

/* A comment may speak of sprintf("x") and of open("y"). */
int frame_read(int fd)
{
    const char *text = "system(1) // /* ";
    return open(text, O_RDONLY | O_CLOEXEC) + fd;
}
EOF
    printf '#include "kernels_db/kernels_db.h"\n#include "proto/frame.h"\n#include <uv.h>\n' >daemon/main.c
    printf '#include "proto/frame.h"\n' >daemon/compiler/main.c
    printf '#include "proto/frame.h"\n#include <sqlite3.h>\n' >kernels_db/kernels_db.c
    printf '#include "proto/frame.h"\n\nTest(frame, F12_lying_length)\n{\n}\n' >tests/unit/frame_test.c
    printf "test('unit/frame', files('frame_test.c'))\n" >tests/unit/meson.build
    printf "'proto/frame.c', 'daemon/main.c', 'daemon/compiler/main.c', 'kernels_db/kernels_db.c'\n" >meson.build
    printf "'main.c'\n" >daemon/meson.build
    printf "'fusiond.c'\n" >client/meson.build
    printf 'METHOD(PING, "ping", ping_request, ping_reply)\n' >proto/methods.def
    printf 'ERROR(BUSY, 29, true, "Full.")\n' >proto/errors.def
    printf 'VALUE(dtype, DTYPE_BOOL, "bool", 1)\n' >proto/enums.def
    printf '/* LIST(m, field) */\nMESSAGE(a, STRICT)\nTEXT(a, name, NEEDED, 1)\nTEXT(worker_a, own, NEEDED, 1)\n' \
        >proto/messages.def
    printf 'Methods: `ping`. Errors: BUSY. Types: bool. Fields: name.\n' >proto/PROTOCOL.md
    mkdir -p client/examples
    printf '#include <fusiond.h>\n' >client/examples/first.c
    printf "'first.c'\n" >client/examples/meson.build
    printf 'Text.\n```c\n#include <fusiond.h>\n```\n' >README.md
    printf '| id | what | state | by |\n| F12 | lengths | proven | `F12_lying_length` |\n' >docs/guarantees.md
}

number=0
verdict() { # NAME OUTPUT EXPECTED-RULE
    number=$((number + 1))
    failing=$(grep '^not ok' "$2" | sed 's/^not ok [0-9]* - //' | tr '\n' ' ')
    if grep -q "^ok [0-9]* - $3 # SKIP" "$2" && [ "$3" = formatted ]; then
        echo "ok $number - $1 # SKIP clang-format 14 is not installed"
    elif [ "$failing" = "$3${3:+ }" ]; then
        echo "ok $number - $1"
    else
        echo "not ok $number - $1"
        printf '  ---\n  failing rules: %s, expected: %s\n' "${failing:-none}" "${3:-none}"
        sed 's/^/  /' "$2"
        echo "  ..."
    fi
}

# violate RULE NAME COMMAND…: after the command exactly that rule fails.
violate() {
    rule=$1
    name=$2
    shift 2
    fresh
    "$@"
    sh "$check" "$work/tree" >"$work/output" 2>&1
    verdict "$name" "$work/output" "$rule"
}

add() { # FILE TEXT, with printf's escapes
    printf "$2" >>"$1" # a format on purpose
}
long() { # LINES PREFIX SUFFIX
    printf '%b' "$2"
    awk -v n="$1" 'BEGIN { while (n-- > 0) print "    frame_read(0);" }'
    printf '%b' "$3"
}
add_long_function() { long 101 '\nint long_one(void)\n{\n' '    return 0;\n}\n' >>proto/frame.c; }
add_long_file() {
    for letter in a b c d e f g h i; do
        long 90 "\nint long_$letter(void)\n{\n" '    return 0;\n}\n' >>proto/frame.c
    done
}
misformat() {
    cp "$format" .clang-format
    add proto/frame.c '\nint  x;\n'
}
header() { # PATH GUARD FIRST-LINE
    printf '%b#ifndef %s\n#define %s\n\n#endif\n' "$3" "$2" "$2" >"$1"
}

echo "1..43"
violate "" a_clean_tree_passes true
violate includes_go_one_way proto_includes_the_database add proto/frame.c '#include "kernels_db/kernels_db.h"\n'
violate includes_go_one_way database_includes_the_front add kernels_db/kernels_db.c '#include "daemon/main.h"\n'
violate includes_go_one_way compiler_includes_the_front add daemon/compiler/main.c '#include "daemon/pool.h"\n'
violate includes_go_one_way front_includes_the_compiler add daemon/main.c '#include "daemon/compiler/nvrtc.h"\n'
violate includes_go_one_way client_includes_the_database add client/fusiond.c '#include "kernels_db/kernels_db.h"\n'
violate libraries_stay_in_their_process front_includes_nvrtc add daemon/main.c '#include <nvrtc.h>\n'
violate libraries_stay_in_their_process compiler_includes_cuda add daemon/compiler/main.c '#include <cuda.h>\n'
violate libraries_stay_in_their_process proto_includes_libuv add proto/frame.c '#include <uv.h>\n'
violate libraries_stay_in_their_process front_includes_sqlite add daemon/main.c '#include <sqlite3.h>\n'
violate libraries_stay_in_their_process front_loads_a_library add daemon/main.c '\nvoid *p = dlopen("x", 1);\n'
violate includes_start_at_the_root include_of_a_neighbour add tests/unit/frame_test.c '#include "../support/x.h"\n'
violate guards_are_paths wrong_guard header proto/scan.h SCAN_H '/* Scan. */\n'
violate guards_are_paths pragma_once add proto/frame.h '#pragma once\n'
violate headers_say_what_they_are_for no_first_comment header proto/scan.h PROTO_SCAN_H ''
violate files_are_small too_many_lines add_long_file
violate functions_are_small too_long_a_function add_long_function
violate no_forbidden_calls strcpy add proto/frame.c '\nchar *x = strcpy(a, "b");\n'
violate no_forbidden_calls system add tests/unit/frame_test.c '\nint x = system("true");\n'
violate no_forbidden_calls sleep_in_a_test add tests/unit/frame_test.c '\nvoid x(void)\n{\n    usleep(3);\n}\n'
violate no_forbidden_calls fork_in_the_front add daemon/main.c '\nint x(void)\n{\n    return fork();\n}\n'
violate descriptors_close_on_exec open_without add proto/frame.c '\nint x = open("a", O_RDONLY);\n'
violate descriptors_close_on_exec socket_over_two_lines add proto/frame.c '\nint x = socket(AF_UNIX,\n    1, 0);\n'
violate descriptors_close_on_exec fopen_without_e add proto/frame.c '\nFILE *x = fopen("a", "r");\n'
violate lines_are_tidy trailing_space add docs/guarantees.md 'x \n'
violate lines_are_tidy tab add tests/unit/meson.build '\tx\n'
violate lines_are_tidy no_newline add docs/guarantees.md 'x'
violate lines_are_tidy too_long add tests/unit/meson.build "# $(printf '%0125d' 7)\n"
violate formatted not_formatted misformat
violate every_source_is_built forgotten_test add tests/unit/scan_test.c '#include "proto/frame.h"\n'
violate every_source_is_built forgotten_source add proto/scan.c '#include "proto/frame.h"\n'
violate proofs_exist no_such_test add docs/guarantees.md '| F13 | cuts | proven | `F13_cut` |\n'
violate proofs_exist no_such_test_in_part add docs/guarantees.md '| F14 | x | in part | `F14_gone` | y |\n'
violate proofs_exist no_guarantees rm docs/guarantees.md
violate proofs_exist proof_without_a_test add docs/guarantees.md '| F13 | cuts | proven | by hand |\n'
violate "" planned_rows_need_no_test add docs/guarantees.md '| F13 | cuts | planned | `F13_cut` |\n'
violate "" a_comment_may_name_anything add proto/frame.c '\n/* strcpy(a, b);\n   dlopen(x) */\n'
violate "" the_front_includes_what_it_may add daemon/main.c '#include "daemon/resolve/resolve.h"\n'
violate readme_shows_the_example other_program add client/examples/first.c '\n'
violate protocol_is_described method_in_no_document add proto/methods.def 'METHOD(X, "x.y", a, b)\n'
violate protocol_is_described error_in_no_document add proto/errors.def 'ERROR(NEW, 99, true, "X.")\n'
violate protocol_is_described word_in_no_document add proto/enums.def 'VALUE(dtype, DTYPE_X, "x9", 2)\n'
violate protocol_is_described field_in_no_document add proto/messages.def 'FLAG(a, fresh)\n'
