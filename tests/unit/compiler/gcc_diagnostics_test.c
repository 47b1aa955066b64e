/* Diagnostics from what g++ 12, its assembler, its linker and its driver print. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/compiler/gcc_diagnostics.h"

static msgpack_zone zone;
static struct diagnostic *list;
static size_t n;
static char *log_;
static size_t log_size;

static void setup(void)
{
    msgpack_zone_init(&zone, MSGPACK_ZONE_CHUNK_SIZE);
}

static void teardown(void)
{
    free(log_);
    log_ = NULL;
    msgpack_zone_destroy(&zone);
}

TestSuite(gcc_diagnostics, .init = setup, .fini = teardown);

static void parse_bytes(const char *said, size_t size)
{
    static const char *const includes[] = {"../m", "h", NULL};
    const struct gcc_places places = {includes, "/state/host-cc.abc/job"};
    struct error error = {0};
    char *copy = strndup(said, size);
    free(log_);
    cr_assert(gcc_diagnostics_parse(copy, size, &places, &zone, &list, &n, &log_, &log_size, &error) == 0, "%s",
              error.text);
    free(copy);
}

static void parse(const char *said)
{
    parse_bytes(said, strlen(said));
}

/* line 0: no position */
static void expect(size_t i, enum severity severity, const char *file, unsigned line, unsigned column, const char *text)
{
    cr_assert(i < n, "only %zu diagnostics", n);
    cr_assert(list[i].severity == severity, "%zu: severity %d", i, list[i].severity);
    if (file == NULL)
        cr_assert(list[i].file.at == NULL && !list[i].has_line, "%zu: a position", i);
    else
        cr_assert_str_eq(list[i].file.at, file);
    cr_assert(list[i].has_line == (line != 0) && list[i].line == line, "%zu: line %llu", i,
              (unsigned long long)list[i].line);
    cr_assert(list[i].has_column == (column != 0) && list[i].column == column, "%zu: column %llu", i,
              (unsigned long long)list[i].column);
    cr_assert_str_eq(list[i].text.at, text);
}

#define AT(file, line, column)                                                                                         \
    "\"locations\": [{\"caret\": {\"file\": \"" file "\", \"line\": " #line ", \"column\": " #column "}}]"

Test(gcc_diagnostics, errors_with_positions)
{
    parse("[{\"kind\": \"error\", \"message\": \"'x' was not declared in this scope\", " AT(
        "fusion.cu", 3, 5) ", \"children\": []}, {\"kind\": \"warning\", \"message\": \"unused\", \"option\": "
                           "\"-Wunused\", " AT("fusion.cu", 9, 1) "}]\n");
    cr_assert(n == 2);
    expect(0, SEVERITY_ERROR, "fusion.cu", 3, 5, "'x' was not declared in this scope");
    expect(1, SEVERITY_WARNING, "fusion.cu", 9, 1, "unused");
    cr_assert_str_eq(log_, "fusion.cu:3:5: error: 'x' was not declared in this scope\n"
                           "fusion.cu:9:1: warning: unused\n");
}

/* A finding's notes follow it, and the names of files are those that the client knows. */
Test(gcc_diagnostics, notes_and_names_of_files)
{
    parse("[{\"kind\": \"fatal error\", \"message\": \"a\", " AT(
        "h/lib/x.h", 1, 2) ", \"children\": ["
                           "{\"kind\": \"note\", \"message\": \"b\", " AT(
                               "../m/fusiond/tensor.cuh", 4,
                               6) "},"
                                  "{\"kind\": \"note\", \"message\": \"c\", " AT("./fusion.cu", 7, 0) "}]}]\n");
    cr_assert(n == 3);
    expect(0, SEVERITY_ERROR, "lib/x.h", 1, 2, "a");
    expect(1, SEVERITY_NOTE, "fusiond/tensor.cuh", 4, 6, "b");
    expect(2, SEVERITY_NOTE, "fusion.cu", 7, 0, "c");
}

Test(gcc_diagnostics, no_findings)
{
    parse("[]\n");
    cr_assert(n == 0 && log_size == 0);
    parse("");
    cr_assert(n == 0 && log_size == 0);
}

/* The source's bytes stand in the output as they are. */
Test(gcc_diagnostics, control_characters)
{
    parse("[{\"kind\": \"error\", \"message\": \"#error a\001b\tc\", " AT("fusion.cu", 1, 2) "}]\n");
    cr_assert(n == 1);
    expect(0, SEVERITY_ERROR, "fusion.cu", 1, 2, "#error a?b?c");
}

/* The output was cut in the middle: what came before counts. */
Test(gcc_diagnostics, F6_cut_output)
{
    parse("[{\"kind\": \"error\", \"message\": \"first\", " AT("fusion.cu", 1, 2) "}, {\"kind\": \"error\", \"mess");
    cr_assert(n == 1);
    expect(0, SEVERITY_ERROR, "fusion.cu", 1, 2, "first");
    cr_assert(strstr(log_, "cannot be read]") != NULL, "%s", log_);
}

Test(gcc_diagnostics, what_is_no_finding_is_passed_over)
{
    parse("[{\"kind\": 3}, {\"message\": \"alone\"}, [], 7, {\"kind\": \"error\", \"message\": \"no place\"}]\n");
    cr_assert(n == 1);
    expect(0, SEVERITY_ERROR, NULL, 0, 0, "no place");
}

Test(gcc_diagnostics, errors_are_kept_when_there_are_too_many)
{
    char *said = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&said, &size);
    fputc('[', out);
    for (unsigned i = 0; i < LIMIT_DIAGNOSTICS + 50; i++)
        fprintf(out, "%s{\"kind\": \"%s\", \"message\": \"%u\"}", i ? ", " : "",
                i < LIMIT_DIAGNOSTICS ? "warning" : "error", i);
    fputs("]\n", out);
    fclose(out);
    parse(said);
    free(said);
    cr_assert(n == LIMIT_DIAGNOSTICS);
    cr_assert(list[0].severity == SEVERITY_WARNING && list[n - 51].severity == SEVERITY_WARNING);
    for (size_t i = n - 50; i < n; i++)
        cr_assert(list[i].severity == SEVERITY_ERROR);
}

/* The private folder's name, and the random ones of the driver, are nobody's business. */
Test(gcc_diagnostics, F28_the_private_folder_is_not_shown)
{
    parse("/state/host-cc.abc/job/ccTMBqbl.s: Assembler messages:\n"
          "/state/host-cc.abc/job/ccTMBqbl.s:4: Error: no such instruction: `bogus'\n"
          "fusion.cu:12: Error: operand size mismatch for `mov'\n"
          "/usr/bin/ld: /state/host-cc.abc/job/ccAAAAAA.o: in function `f':\n"
          "/usr/bin/ld: object.o: undefined reference to `g'\n");
    cr_assert(n == 3);
    expect(0, SEVERITY_ERROR, NULL, 0, 0, "assembly.s:4: Error: no such instruction: `bogus'");
    expect(1, SEVERITY_ERROR, "fusion.cu", 12, 0, "fusion.cu:12: Error: operand size mismatch for `mov'");
    expect(2, SEVERITY_ERROR, NULL, 0, 0, "/usr/bin/ld: object.o: undefined reference to `g'");
    cr_assert(strstr(log_, "/state") == NULL && strstr(log_, "ccTMBqbl") == NULL, "%s", log_);
    cr_assert(strstr(log_, "/usr/bin/ld: assembly.o: in function `f':") != NULL, "%s", log_);
}

Test(gcc_diagnostics, F4_how_a_tool_ended)
{
    static const struct {
        enum gcc_end end;
        const char *said;
    } cases[] = {
        {GCC_END_DONE, ""},
        {GCC_END_DONE, "[]\n"},
        {GCC_END_DONE, "compilation terminated.\n"},
        {GCC_END_MEMORY, "\ncc1plus: out of memory allocating 6000 bytes after a total of 644419584 bytes\n"},
        {GCC_END_MEMORY, "\nas: out of memory allocating 46000000001 bytes after a total of 135168 bytes\n[]\n"},
        {GCC_END_MEMORY, "/usr/bin/ld: out of memory allocating 1 bytes after a total of 2 bytes\n"},
        {GCC_END_STACK,
         "g++: internal compiler error: Segmentation fault signal terminated program cc1plus\nPlease submit\n"},
        {GCC_END_KILLED, "x86_64-linux-gnu-g++-12: fatal error: Killed signal terminated program ../b/leaf\n"},
        {GCC_END_CPU, "g++: internal compiler error: CPU time limit exceeded signal terminated program ../b/leaf\n"},
        /* What the code's author can write does not count. */
        {GCC_END_DONE, "[{\"kind\": \"error\", \"message\": \"cc1plus: out of memory allocating 1 bytes\"}]\n"},
        {GCC_END_DONE, "fusion.cu:1: Error: as: out of memory allocating 1 bytes\n"},
        {GCC_END_DONE, "out of memory allocating 1 bytes\n"},
        {GCC_END_DONE, "fusion.cu:3:2: error: #error Killed signal terminated program\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        cr_assert(gcc_diagnostics_end(text_of(cases[i].said)) == cases[i].end, "%zu: %s", i, cases[i].said);
}
