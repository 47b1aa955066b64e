/* Source and options as a way to files of the machine: nothing of a secret comes back, nothing is written. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/integration/daemon/fixture.h"

#define SECRET "marzipan_7261" /* an identifier: diagnostics like to quote those */

static struct daemon_process daemon_;
static struct base_line base;
static struct wire wire;
static char secret[128]; /* a file with a line of it */
static char code[1024];

static void setup(void)
{
    daemon_start_or_skip(&daemon_, NULL);
    snprintf(secret, sizeof secret, "%s/secret.h", daemon_.directory);
    int fd = open(secret, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    cr_assert(fd >= 0 && write(fd, SECRET " = 1;\n", sizeof SECRET + 5) > 0);
    close(fd);
    base = base_line_take(&daemon_);
    wire_open(&wire, daemon_.socket);
}

static void teardown(void)
{
    daemon_finish(&daemon_);
}

TestSuite(leaks, .init = setup, .fini = teardown);

static size_t count_files(void)
{
    size_t n = 0;
    DIR *folder = opendir(daemon_.directory);
    while (folder && readdir(folder))
        n++;
    if (folder)
        closedir(folder);
    return n;
}

/* Ask; whatever comes, failure or kernel, has nothing of the secret in it, and neither has the log. */
static unsigned ask(struct sample *sample)
{
    struct envelope envelope;
    size_t files = count_files();
    sample->request.with_log = sample->request.with_image = sample->request.with_ptx = true;
    sample->request.deadline_ms = 5000;
    sample->request.has_deadline_ms = true;
    wire_ask(&wire, METHOD_COMPILE, &sample->request);
    cr_assert(wire_read(&wire, WIRE_PATIENCE_MS, &envelope) == WIRE_FRAME);
    struct bytes all = envelope.error.at ? envelope.error : envelope.body;
    /* The rest of the secret, for who quotes it cut or with a caret below. */
    cr_assert(!memmem(all.at, all.size, "marzipan", 8), "it leaks");
    cr_assert(daemon_log_count(&daemon_, "marzipan") == 0, "it is in the log");
    cr_assert(count_files() == files, "a file was written");
    if (!envelope.error.at)
        return 0;
    struct failure failure;
    struct error error;
    cr_assert(message_parse(&failure_type, envelope.error.at, envelope.error.size, &wire.zone, &failure, &error) == 0);
    return (unsigned)failure.code;
}

static void daemon_is_well(void)
{
    struct sample sample;
    get_kernel(&wire, sample_kernel(&sample, 1));
    wire_close(&wire);
    base_line_check(&base);
    daemon_stop_in_order(&daemon_);
}

/* Rows 1, 2, 12: an include of a path, and of a name that an include folder would give. */
Test(leaks, F28_includes)
{
    static const char *const forms[] = {"#include \"%s\"",      "#include <%s>",  "#define F \"%s\"\n#include F",
                                        "#include_next \"%s\"", "#import \"%s\"", "#include \"../../../../..%s\""};
    struct sample sample;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        char line[256];
        snprintf(line, sizeof line, forms[i], secret); // NOLINT: the forms are above
        snprintf(code, sizeof code, "%s\nextern \"C\" __global__ void k() {}\n", line);
        cr_expect(ask((sample_code(&sample, code, "k"), &sample)) == STATUS_COMPILE_FAILED, "%s", forms[i]);
    }
    static const char *const names[] = {"/etc/passwd",        "secret.h",        "/proc/self/environ",
                                        "/proc/self/cmdline", "/proc/self/maps", "/dev/stdin"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(code, sizeof code, "#include \"%s\"\nextern \"C\" __global__ void k() {}\n", names[i]);
        sample_code(&sample, code, "k");
        struct failure failure = fail_kernel(&wire, &sample.request, STATUS_COMPILE_FAILED, NULL);
        cr_expect(!strstr(failure.log.at, "root:") && !strstr(failure.log.at, "NOTIFY_SOCKET"), "%s", failure.log.at);
        cr_expect(strstr(failure.log.at, "cannot open") || strstr(failure.log.at, "could not open"), "%s: %s", names[i],
                  failure.log.at);
    }
    daemon_is_well();
}

/* Row 5: whether a file is there must not show. */
Test(leaks, F28_has_include)
{
    struct sample sample;
    unsigned codes[2];
    for (int there = 0; there < 2; there++) {
        snprintf(code, sizeof code,
                 "#if __has_include(\"%s%s\")\n#error it is there\n#endif\n"
                 "extern \"C\" __global__ void k() {}\n",
                 secret, there ? "" : ".not");
        codes[there] = ask((sample_code(&sample, code, "k"), &sample));
    }
    cr_assert(codes[0] == 0 && codes[1] == 0, "%u and %u", codes[0], codes[1]);
    daemon_is_well();
}

/* Row 3 and the options: a value that is a flag of its own. */
Test(leaks, F28_options_in_values)
{
    struct sample sample;
    char value[300];
    static const char *const flags[] = {"-include=%s",         "--pre-include=%s",
                                        "--options-file=%s",   "--ptxas-options=--options-file=%s",
                                        "--time=%s.out",       "--fdevice-time-trace=%s.out",
                                        "--create-pch=%s.out", "-I%s"};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        snprintf(value, sizeof value, flags[i], secret); // NOLINT: the flags are above
        struct define define = {.name = text_of(value)};
        sample_kernel(&sample, 5);
        sample.options.defines = &define;
        sample.options.n_defines = 1;
        cr_expect(ask(&sample) == STATUS_INVALID_OPTION, "a define named %s", value);
        char after[320];
        snprintf(after, sizeof after, "1 %s", value);
        define = (struct define){.name = TEXT_OF("A"), .value = text_of(after)};
        ask(&sample); /* as a value it is just text */
        sample_kernel(&sample, 5);
        sample.fusion.target = text_of(value);
        sample.fusion.target.size = sample.fusion.target.size > 32 ? 32 : sample.fusion.target.size;
        cr_expect(ask(&sample) != 0, "a target named %s", value);
    }
    daemon_is_well();
}

/* Row 11: a FIFO would hold the compiler for ever. */
Test(leaks, F28_a_fifo)
{
    struct sample sample;
    char fifo[128];
    snprintf(fifo, sizeof fifo, "%s/fifo.h", daemon_.directory);
    cr_assert(mkfifo(fifo, 0666) == 0);
    snprintf(code, sizeof code, "#include \"%s\"\nextern \"C\" __global__ void k() {}\n", fifo);
    long begin = clock_ms();
    cr_assert(ask((sample_code(&sample, code, "k"), &sample)) == STATUS_COMPILE_FAILED);
    cr_assert(clock_ms() - begin < 4000);
    daemon_is_well();
}

/* What the assembler includes by itself. */
Test(leaks, F28_inline_assembly)
{
    struct sample sample;
    static const char *const lines[] = {".file 7 \\\"%s\\\"", ".include \\\"%s\\\"", ".incbin \\\"%s\\\""};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        char line[256];
        snprintf(line, sizeof line, lines[i], secret); // NOLINT: the lines are above
        snprintf(code, sizeof code, "extern \"C\" __global__ void k() { asm volatile(\"%s\"); }\n", line);
        ask((sample_code(&sample, code, "k"), &sample));
    }
    daemon_is_well();
}

/* A NUL hides what stands behind it from the compiler. */
Test(leaks, F28_a_nul_in_the_code)
{
    struct sample sample;
    static const char hidden[] = "extern \"C\" __global__ void k() {}\n\0#include \"/etc/passwd\"\n";
    sample_code(&sample, hidden, "k");
    sample.fusion.code = (struct text){hidden, sizeof hidden - 1};
    cr_assert(ask(&sample) == STATUS_INVALID_FIELD);
    daemon_is_well();
}
