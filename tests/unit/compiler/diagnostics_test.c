/* Diagnostics from logs as NVRTC 13.0 and 12 print them. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/compiler/diagnostics.h"

static msgpack_zone zone;
static struct diagnostic *list;
static size_t n;

static void setup(void)
{
    msgpack_zone_init(&zone, MSGPACK_ZONE_CHUNK_SIZE);
}

static void teardown(void)
{
    msgpack_zone_destroy(&zone);
}

TestSuite(diagnostics, .init = setup, .fini = teardown);

static void parse(const char *log)
{
    struct error error;
    cr_assert(diagnostics_parse(text_of(log), &zone, &list, &n, &error) == 0);
}

/* line 0: no position; column 0: none. */
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
    cr_assert(strlen(text) == list[i].text.size);
}

Test(diagnostics, errors_and_warnings)
{
    parse("fusion.cu(3): error: a value of type \"const char *\" cannot be used to initialize an entity of type "
          "\"float\"\n"
          "      float x = \"text\";\n"
          "                ^\n"
          "\n"
          "fusion.cu(4): error: identifier \"undefined_thing\" is undefined\n"
          "      undefined_thing(p);\n"
          "      ^\n"
          "\n"
          "fusion.cu(2): warning #177-D: variable \"unused\" was declared but never referenced\n"
          "      int unused = 3;\n"
          "          ^\n"
          "\n"
          "Remark: The warnings can be suppressed with \"-diag-suppress <warning-number>\"\n"
          "\n"
          "2 errors detected in the compilation of \"fusion.cu\".\n");
    cr_assert(n == 3, "%zu", n);
    expect(0, SEVERITY_ERROR, "fusion.cu", 3, 15,
           "a value of type \"const char *\" cannot be used to initialize an entity of type \"float\"\n"
           "      float x = \"text\";\n"
           "                ^");
    expect(1, SEVERITY_ERROR, "fusion.cu", 4, 5,
           "identifier \"undefined_thing\" is undefined\n      undefined_thing(p);\n      ^");
    expect(2, SEVERITY_WARNING, "fusion.cu", 2, 9,
           "#177-D: variable \"unused\" was declared but never referenced\n      int unused = 3;\n          ^");
}

Test(diagnostics, continuation_lines)
{
    parse("fusion.cu(11): error: more than one instance of overloaded function \"over\" matches the argument list:\n"
          "            function \"over(int)\" (declared at line 10)\n"
          "            function \"over(float)\" (declared at line 10)\n"
          "            argument types are: (double)\n"
          "  __global__ void k3() { over(1.0); }\n"
          "                         ^\n"
          "\n"
          "fusion.cu(7): error: static assertion failed with \"T must be a byte\"\n"
          "  template <class T> struct S { static_assert(sizeof(T) == 1, \"T must be a byte\"); };\n"
          "                                ^\n"
          "          detected during:\n"
          "            instantiation of class \"S<T> [with T=float]\" at line 8\n"
          "            instantiation of \"void h(T) [with T=float]\" at line 9\n"
          "\n");
    cr_assert(n == 2);
    cr_assert(list[0].column == 24 && strstr(list[0].text.at, "argument types are: (double)") != NULL);
    cr_assert(list[1].column == 31 && strstr(list[1].text.at, "\"void h(T) [with T=float]\" at line 9") != NULL);
}

Test(diagnostics, brief_form)
{
    parse("fusion.cu(3): error: expected a \";\"\n"
          "Remark: The warnings can be suppressed with \"-diag-suppress <warning-number>\"\n"
          "fusion.cu(4): warning #940-D: missing return statement\n");
    cr_assert(n == 2);
    expect(0, SEVERITY_ERROR, "fusion.cu", 3, 0, "expected a \";\"");
    expect(1, SEVERITY_WARNING, "fusion.cu", 4, 0, "#940-D: missing return statement");
}

Test(diagnostics, modules_and_headers_keep_their_names)
{
    parse("fusiond/warp.cuh(3): error: identifier \"y\" is undefined\n"
          "    return y;\n"
          "           ^\n"
          "\n"
          "my (own): header(2).h(14): note #3322-D: see here\n");
    cr_assert(n == 2);
    expect(0, SEVERITY_ERROR, "fusiond/warp.cuh", 3, 10, "identifier \"y\" is undefined\n    return y;\n           ^");
    expect(1, SEVERITY_NOTE, "my (own): header(2).h", 14, 0, "#3322-D: see here");
}

Test(diagnostics, catastrophic)
{
    parse("fusion.cu(1): catastrophic error: cannot open source file \"missing.h\"\n"
          "  #include \"missing.h\"\n"
          "                      ^\n"
          "\n"
          "1 catastrophic error detected in the compilation of \"fusion.cu\".\n"
          "Compilation terminated.\n");
    cr_assert(n == 1);
    cr_assert(list[0].severity == SEVERITY_ERROR && list[0].line == 1 && list[0].column == 21);
}

Test(diagnostics, without_a_position)
{
    parse("nvrtc: warning: \"--gpu-architecture(-arch)=90\" followed by \"--gpu-architecture(-arch)=75\"\n"
          "Command-line error: invalid or no value specified with --nv_arch flag\n"
          "\n"
          "1 catastrophic error detected in this compilation.\n"
          "Compilation terminated.\n"
          "nvrtc: error: unrecognized option -bogus found\n"
          "error: Formal parameter space overflowed (4608 bytes required, max 4352 bytes allowed) in function k\n"
          "At end of source: error: expected a \"}\"\n"
          "Catastrophic error: cannot open temporary file \"/tmp/edg20_15934\"\n");
    cr_assert(n == 6, "%zu", n);
    expect(5, SEVERITY_ERROR, NULL, 0, 0, "cannot open temporary file \"/tmp/edg20_15934\"");
    expect(0, SEVERITY_WARNING, NULL, 0, 0,
           "\"--gpu-architecture(-arch)=90\" followed by \"--gpu-architecture(-arch)=75\"");
    expect(1, SEVERITY_ERROR, NULL, 0, 0, "invalid or no value specified with --nv_arch flag");
    expect(2, SEVERITY_ERROR, NULL, 0, 0, "unrecognized option -bogus found");
    expect(3, SEVERITY_ERROR, NULL, 0, 0,
           "Formal parameter space overflowed (4608 bytes required, max 4352 bytes allowed) in function k");
    expect(4, SEVERITY_ERROR, NULL, 0, 0, "expected a \"}\"");
}

/* A position in the PTX, or in the list of names, is none in the client's code. */
Test(diagnostics, assembler_and_names)
{
    parse("ptxas application ptx input, line 26; error   : Unknown modifier '.instr'\n"
          "ptxas application ptx input, line 26; fatal   : Parsing error near '%': syntax error\n"
          "ptxas fatal   : Ptx assembly aborted due to errors\n"
          "ptxas warning : Value of threads per SM for entry k is out of range. .minnctapersm will be ignored\n"
          "__nv_name_map(2): error: identifier \"nosuch\" is undefined\n"
          "  #pragma nv_mangled_name nosuch\n"
          "                          ^\n");
    cr_assert(n == 5, "%zu", n);
    expect(0, SEVERITY_ERROR, NULL, 0, 0, "ptxas application ptx input, line 26; error   : Unknown modifier '.instr'");
    expect(2, SEVERITY_ERROR, NULL, 0, 0, "ptxas fatal   : Ptx assembly aborted due to errors");
    cr_assert(list[3].severity == SEVERITY_WARNING);
    cr_assert(list[4].file.at == NULL && !list[4].has_line && !list[4].has_column);
    cr_assert(strstr(list[4].text.at, "nosuch") != NULL);
}

Test(diagnostics, reports_are_none)
{
    parse("ptxas info    : Overriding maximum register limit 256 for '_Z1kPf' with  32 of maxrregcount option\n"
          "ptxas info    : 0 bytes gmem\n"
          "ptxas info    : Compiling entry function '_Z1kPf' for 'sm_90a'\n"
          "ptxas info    : Function properties for _Z1kPf\n"
          "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
          "ptxas info    : Used 4 registers, used 0 barriers\n"
          "ptxas info    : Compile time = 1.622 ms\n"
          "\n");
    cr_assert(n == 0 && list == NULL);
    parse("");
    cr_assert(n == 0 && list == NULL);
}

Test(diagnostics, no_nonsense_from_odd_lines)
{
    parse("(3): error: no file\n"
          "f(): error: no number\n"
          "f(99999999999): error: too large a number\n"
          "f(12): nothing\n"
          "errors: none\n"
          "error\n"
          "  error: indented\n"
          "ptxas\n"
          "ptxas \n");
    cr_assert(n == 0, "%zu: %s", n, n ? list[0].text.at : "");
}

/* Far more warnings than are kept, one error behind them: it is kept, and the order with it. */
Test(diagnostics, F6_errors_come_before_warnings)
{
    enum { WARNINGS = 50000, LINE = 64 };
    char *log = malloc(WARNINGS * LINE + LINE);
    size_t size = 0;
    for (int i = 0; i < WARNINGS; i++)
        size += (size_t)sprintf(log + size, "fusion.cu(%d): warning #177-D: unused\n", i + 1);
    size += (size_t)sprintf(log + size, "fusion.cu(60000): error: the one\n");
    parse(log);
    cr_assert(n == LIMIT_DIAGNOSTICS);
    cr_assert(list[0].line == 1 && list[n - 2].line == n - 1);
    expect(n - 1, SEVERITY_ERROR, "fusion.cu", 60000, 0, "the one");
    free(log);
}

Test(diagnostics, texts_are_bounded)
{
    enum { SIZE = 1 << 20 };
    char *log = malloc(SIZE + 64);
    cr_assert(log != NULL);
    size_t size = (size_t)sprintf(log, "fusion.cu(1): error: long\n  ");
    memset(log + size, 'x', SIZE);
    strcpy(log + size + SIZE, "\n  ^\n");
    parse(log);
    cr_assert(n == 1 && list[0].text.size == DIAGNOSTIC_TEXT && list[0].column == 1);
    free(log);
}
