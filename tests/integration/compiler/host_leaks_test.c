/*
 * The leak suite against the C++ compiler's walls alone: every job goes straight to the worker. No file of the machine
 * may be read or written, and nothing may tell an existing file from a missing one.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/host_worker.h"

#define MARKER "SECRET_MARKER_5b1f"

static struct host_worker worker;
static char secret[128], missing[128];

static void setup(void)
{
    static const char text[] = "--" MARKER " " MARKER ";\n#define " MARKER " 1\n";
    host_worker_start_or_skip(&worker);
    snprintf(secret, sizeof secret, "%s/secret", worker.folder);
    snprintf(missing, sizeof missing, "%s/absent", worker.folder);
    int fd = open(secret, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    cr_assert(fd >= 0 && write(fd, text, sizeof text - 1) == (ssize_t)(sizeof text - 1));
    close(fd);
}

static void teardown(void)
{
    host_worker_finish(&worker);
}

TestSuite(host_leaks, .init = setup, .fini = teardown);

/* Search the whole reply, every field of it. */
static bool holds(const struct worker_result *result, const char *what)
{
    msgpack_sbuffer packed;
    msgpack_sbuffer_init(&packed);
    message_pack(&worker_result_type, result, &packed);
    bool found = memmem(packed.data, packed.size, what, strlen(what)) != NULL;
    msgpack_sbuffer_destroy(&packed);
    return found;
}

static struct worker_result compile(const char *code)
{
    return host_worker_compile(&worker, code, NULL);
}

/* The code with each %s replaced by the path. */
static struct worker_result compile_with(const char *code, const char *path)
{
    char text[1024], *at = text;
    for (; *code; code++) {
        if (code[0] == '%' && code[1] == 's') {
            at = stpcpy(at, path);
            code++;
        } else {
            *at++ = *code;
        }
    }
    *at = '\0';
    return compile(text);
}

/* Both failed, and all that is said is the same but for the name: nothing tells which of them exists. */
static void expect_same_results(struct worker_result a, const char *path, struct worker_result b, const char *other)
{
    cr_assert(a.result != 0 && b.result != 0, "%s was taken: %s | %s", path, a.log.at, b.log.at);
    cr_assert(!holds(&a, MARKER) && !holds(&a, "root:"), "%s", a.log.at);
    cr_assert(a.image.at == NULL && a.n_diagnostics == b.n_diagnostics && a.n_diagnostics > 0);
    char text[8192], *at = text, *found;
    /* The name of the second in place of the first. */
    const char *rest = a.log.at;
    while ((found = strstr(rest, path)) != NULL) {
        at = mempcpy(at, rest, (size_t)(found - rest));
        at = stpcpy(at, other);
        rest = found + strlen(path);
    }
    stpcpy(at, rest);
    cr_assert_str_eq(text, b.log.at);
}

static void expect_same(const char *code, const char *path, const char *other)
{
    expect_same_results(compile_with(code, path), path, compile_with(code, other), other);
}

/* Files that exist: a secret, the machine's, the toolchain's own, folders, what is no file. */
static void expect_all_missing(const char *code)
{
    const char *paths[] = {secret,
                           "/etc/passwd",
                           "/proc/self/environ",
                           "/proc/self/fd/3",
                           "/dev/null",
                           "/usr/bin/env",
                           "/usr/lib/os-release",
                           "/usr/include/stdio.h",
                           "/usr",
                           "../../secret",
                           "../../../secret",
                           "../m/../../../secret",
                           "h/../../../../secret",
                           "../b/leaf",
                           worker.parent,
                           worker.ready.library.at};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        expect_same(code, paths[i], missing);
}

Test(host_leaks, F28_row1_include)
{
    expect_all_missing("#include \"%s\"\n");
    expect_same("#include <%s>\n", secret, missing);
    expect_same("#include_next \"%s\"\n", secret, missing);
    expect_same("#import \"%s\"\n", secret, missing);
    expect_same("#define NAME \"%s\"\n#include NAME\n", secret, missing);
    expect_same("#pragma GCC dependency \"%s\"\n", secret, missing);
    expect_same("#pragma GCC pch_preprocess \"%s\"\n", secret, missing);
}

/* Another file's name for the lines of the code: the compiler quotes lines of that file, if it can read it. */
Test(host_leaks, F28_row2_line_names_another_file)
{
    const char *codes[] = {"#line 1 \"%s\"\n#error here\n", "#line 1 \"%s\"\nint\tx\t=\t\ty;\n",
                           "# 1 \"%s\" 1\nint x = y;\n"};
    for (size_t i = 0; i < 3; i++)
        expect_same(codes[i], secret, missing);
}

static struct worker_result compile_args(const char *const *args)
{
    struct worker_result result;
    struct error error = {0};
    cr_assert(host_worker_try(&worker, host_program(&worker, "int x;\n", NULL), args, &result, &error), "%s",
              error.text);
    return result;
}

static const char *option(const char *form, const char *path)
{
    char *text = msgpack_zone_malloc(&worker.zone, strlen(form) + strlen(path) + 1);
    strcpy(stpcpy(text, form), path);
    return text;
}

/* Options that no client can send: the walls hold without the list of options. */
Test(host_leaks, F28_row3_include_option)
{
    const char *forms[] = {"-include", "-imacros"};
    for (int i = 0; i < 2; i++) {
        struct worker_result a = compile_args((const char *[]){forms[i], secret, NULL});
        struct worker_result b = compile_args((const char *[]){forms[i], missing, NULL});
        expect_same_results(a, secret, b, missing);
    }
}

Test(host_leaks, F28_row5_has_include_is_no_oracle)
{
    const char *there = "#if __has_include(\"%s\")\n#error there\n#else\n#error not\n#endif\n";
    expect_all_missing(there);
    struct worker_result result = compile_with(there, secret);
    cr_assert(strstr(result.log.at, "#error not"), "%s", result.log.at);
    /* What a program may include is there. */
    result = compile_with(there, "fusiond/host/abi.h");
    cr_assert(strstr(result.log.at, "#error there"), "%s", result.log.at);
}

/* The driver's own reading of files: an option file, specs, another folder of programs. */
Test(host_leaks, F28_row6_options_that_read)
{
    const char *forms[] = {"@", "-specs=", "-fplugin=", "-fprofile-use=", "-Wa,@", "-Wp,@", "-Wa,-I,", "--sysroot="};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        struct worker_result result = compile_args((const char *[]){option(forms[i], secret), NULL});
        cr_assert(!holds(&result, MARKER), "%s: %s", forms[i], result.log.at);
    }
}

/* Nothing is written outside, and nothing that is there is changed. */
Test(host_leaks, F28_rows7_to_9_options_that_write)
{
    const char *forms[] = {"-MD\n-MF\n",
                           "-fdump-tree-all=",
                           "-ftime-report\n-fdump-tree-original=",
                           "-Wa,-al=",
                           "-dumpdir\n",
                           "-fcallgraph-info\n-dumpdir\n",
                           "-fstack-usage\n-dumpdir\n",
                           "-Wa,--MD="};
    struct stat before, after;
    cr_assert(stat(secret, &before) == 0);
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        const char *paths[] = {secret, missing};
        for (int j = 0; j < 2; j++) {
            char text[256], *rest = text;
            const char *args[8] = {NULL};
            snprintf(text, sizeof text, "%s%s", forms[i], paths[j]);
            for (size_t n = 0; n < 7 && (args[n] = strsep(&rest, "\n")) != NULL; n++)
                ;
            struct worker_result result;
            struct error error;
            if (!host_worker_try(&worker, host_program(&worker, "int x;\n", NULL), args, &result, &error))
                host_worker_restart(&worker);
            cr_assert(access(missing, F_OK) < 0, "%s made a file", forms[i]);
        }
    }
    cr_assert(stat(secret, &after) == 0 && before.st_size == after.st_size && before.st_ino == after.st_ino &&
              before.st_mtim.tv_nsec == after.st_mtim.tv_nsec);
}

Test(host_leaks, F28_row11_fifo_does_not_hang)
{
    char fifo[160];
    struct timespec start, end;
    snprintf(fifo, sizeof fifo, "%s/fifo", worker.folder);
    cr_assert(mkfifo(fifo, 0666) == 0);
    clock_gettime(CLOCK_MONOTONIC, &start);
    expect_same("#include \"%s\"\n", fifo, missing);
    expect_same("#undef asm\nasm(\".include \\\"%s\\\"\");\n", fifo, missing);
    expect_same("#undef asm\nasm(\".incbin \\\"%s\\\"\");\n", fifo, missing);
    clock_gettime(CLOCK_MONOTONIC, &end);
    cr_assert(end.tv_sec - start.tv_sec < 10, "%ld s", (long)(end.tv_sec - start.tv_sec));
}

Test(host_leaks, F28_row12_include_path)
{
    const char *args[] = {"-I", worker.folder, "-include", "secret", NULL};
    struct worker_result result = compile_args(args);
    cr_assert(result.result != 0 && !holds(&result, MARKER), "%s", result.log.at);
}

/* The assembler reads files as well. The host header makes `asm` an error; a client can take that back. */
Test(host_leaks, F28_assembler_include)
{
    expect_all_missing("#undef asm\nasm(\".include \\\"%s\\\"\");\n");
    expect_same("#undef asm\nasm(\".altmacro\\n.include \\\"%s\\\"\");\n", secret, missing);
}

Test(host_leaks, F28_assembler_incbin)
{
    expect_all_missing("#undef asm\nasm(\".incbin \\\"%s\\\"\");\n");
    expect_same("#undef asm\nasm(\".incbin \\\"%s\\\", 1, 4\");\n", secret, missing);
}

/* Sections that make the linker start the compiler again, with options that stand in them. */
Test(host_leaks, F28_link_time_optimisation)
{
    static const char code[] = "#undef asm\n"
                               "asm(\".section .gnu.lto_.opts,\\\"e\\\",@progbits\\n\"\n"
                               "    \".asciz \\\"'-include' '%s' '-fplugin=%s'\\\"\\n\"\n"
                               "    \".section .gnu.lto_.symtab.1,\\\"e\\\",@progbits\\n.byte 0\\n\"\n"
                               "    \".section .gnu.lto_main.1,\\\"e\\\",@progbits\\n.asciz \\\"x\\\"\\n\"\n"
                               "    \".comm __gnu_lto_slim,1,1\\n.text\\n\");\n";
    struct worker_result result = compile_with(code, secret);
    cr_assert(!holds(&result, MARKER), "%s", result.log.at);
}

/* Names of headers become names of files. The daemon refuses these before; the worker does too. */
Test(host_leaks, F28_names_of_headers)
{
    char up[160];
    snprintf(up, sizeof up, "../../../written");
    const char *names[] = {up, "/tmp/fusiond-host-written", "a/../../x", "..", ".", "a//b", "a/", ""};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct job_header header = {.name = text_of(names[i]), .bytes = {(const uint8_t *)"x", 1}};
        struct worker_job job = {
            .program = TEXT_OF("int x;\n"), .headers = &header, .n_headers = 1, .image_kind = IMAGE_KIND_SHARED_OBJECT};
        struct worker_result result;
        struct error error = {0};
        cr_assert(compiler_process_compile(&worker.process, &job, &worker.zone, &result, &error) < 0,
                  "\"%s\" was taken", names[i]);
        host_worker_restart(&worker);
    }
    snprintf(up, sizeof up, "%s/written", worker.folder);
    cr_assert(access(up, F_OK) < 0 && access("/tmp/fusiond-host-written", F_OK) < 0);
}

/* A header in the place of the compiler's own files changes nothing for the next program. */
Test(host_leaks, F28_nothing_stays_behind)
{
    struct job_header header = {.name = TEXT_OF("lib/left.h"), .bytes = {(const uint8_t *)"#define LEFT 1\n", 15}};
    struct worker_job job = {.program = TEXT_OF("#include <lib/left.h>\n#if !LEFT\n#error no\n#endif\n"),
                             .headers = &header,
                             .n_headers = 1,
                             .image_kind = IMAGE_KIND_SHARED_OBJECT};
    struct worker_result result;
    struct error error = {0};
    cr_assert(compiler_process_compile(&worker.process, &job, &worker.zone, &result, &error) == 0, "%s", error.text);
    cr_assert(strstr(result.log.at, "#error") == NULL, "%s", result.log.at);
    result = compile("#include <lib/left.h>\n");
    cr_assert(result.result != 0 && strstr(result.log.at, "No such file"), "%s", result.log.at);
    result = compile("#undef asm\nasm(\".incbin \\\"h/lib/left.h\\\"\");\n");
    cr_assert(result.result != 0, "%s", result.log.at);
}

/* Where the private folder is does not show in an image or a log. */
Test(host_leaks, F28_the_private_folder_is_not_shown)
{
    const char *codes[] = {"const char *file = __FILE__;\n", "#undef asm\nasm(\"bogus\");\n", "#error here\n",
                           "void missing(); void caller() { missing(); }\n"};
    const char *debug[] = {"-g", NULL};
    for (size_t i = 0; i < 4; i++) {
        struct worker_result result;
        struct error error = {0};
        cr_assert(host_worker_try(&worker, host_program(&worker, codes[i], NULL), debug, &result, &error), "%s",
                  error.text);
        cr_assert((result.result == 0) == (i == 0), "%s", result.log.at);
        cr_assert(!holds(&result, worker.folder), "%s: %s", codes[i], result.log.at);
    }
}

/* The machine has Landlock and seccomp, or the worker says that it has not. */
Test(host_leaks, F28_the_grade_is_told)
{
    cr_assert(worker.ready.sandbox == SANDBOX_FULL || worker.ready.sandbox == SANDBOX_NONE);
    if (worker.ready.sandbox == SANDBOX_NONE)
        cr_skip("the toolchain is not shut in: an AddressSanitizer build, or a kernel without Landlock");
}
