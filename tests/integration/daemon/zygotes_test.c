/* Programs that begin alike are compiled from a precompiled header, and nobody can tell but by the time. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/compile/pch_folders.h"
#include "daemon/compiler/code_sections.h"
#include "tests/integration/daemon/fixture.h"
#include "tests/support/zygote_process.h"

static struct daemon_process daemon_;
static struct wire wire;
static msgpack_zone zone;
static struct header header;

static void begin(const char *const *args)
{
    daemon_start_or_skip(&daemon_, &(struct daemon_options){.args = args});
    wire_open(&wire, daemon_.socket);
    struct stats_reply stats = wire_stats(daemon_.socket);
    cr_assert(stats.zygotes == 0 && stats.zygote_starts_total == 0);
}

static void setup(void)
{
    msgpack_zone_init(&zone, MSGPACK_ZONE_CHUNK_SIZE);
    struct job_header heavy = heavy_header(&zone);
    header = (struct header){.name = heavy.name, .bytes = heavy.bytes};
}

static void teardown(void)
{
    daemon_finish(&daemon_);
    msgpack_zone_destroy(&zone);
}

TestSuite(zygotes, .init = setup, .fini = teardown);

/* Code behind the heavy header. */
static struct compile_request *heavy(struct sample *ret, const char *code)
{
    static char text[8192];
    snprintf(text, sizeof text, HEAVY_PREFIX "%s", code);
    sample_code(ret, text, "k")->with_image = true;
    ret->request.with_log = ret->request.with_ptx = true;
    ret->fusion.headers = &header;
    ret->fusion.n_headers = 1;
    return &ret->request;
}

/* Another kernel for every number. */
static struct compile_request *numbered(struct sample *ret, unsigned number)
{
    char code[256];
    snprintf(code, sizeof code, "extern \"C\" __global__ void k(int *p) { heavy%u<int> h{*p}; *p = h.twice() + %u; }\n",
             number, number);
    return heavy(ret, code);
}

struct stats_wait {
    size_t field;
    uint64_t value;
};

static bool stats_are(void *context)
{
    const struct stats_wait *wait = context;
    struct stats_reply stats = wire_stats(daemon_.socket);
    uint64_t value;
    memcpy(&value, (char *)&stats + wait->field, sizeof value);
    return value == wait->value;
}

#define BECOMES(field, value)                                                                                          \
    cr_assert(becomes_true(stats_are, &(struct stats_wait){offsetof(struct stats_reply, field), value},                \
                           2 * DAEMON_PATIENCE_MS),                                                                    \
              #field " never became %d: %s", (int)(value), daemon_log(&daemon_))

/* Two compiles, and the zygote that they deserve. */
static void get_zygote(void)
{
    struct sample sample;
    cr_assert(get_kernel(&wire, numbered(&sample, 1)).outcome == OUTCOME_COMPILED);
    cr_assert(wire_stats(daemon_.socket).zygote_starts_total == 0, "one compile deserves none");
    cr_assert(get_kernel(&wire, numbered(&sample, 2)).outcome == OUTCOME_COMPILED);
    struct stats_reply stats = wire_stats(daemon_.socket);
    cr_assert(stats.zygote_starts_total == 1 && stats.pch_hits_total == 0);
    if (becomes_true(stats_are, &(struct stats_wait){offsetof(struct stats_reply, zygotes), 1}, 2 * DAEMON_PATIENCE_MS))
        return;
    char *log = daemon_log(&daemon_);
    if (strstr(log, "need Landlock"))
        cr_skip("this kernel has no Landlock");
    cr_assert_fail("no zygote: %s", log);
}

static size_t count_folders(void)
{
    size_t n = 0;
    const struct dirent *entry;
    char path[128];
    snprintf(path, sizeof path, "%s/v1", daemon_.cache);
    DIR *folder = opendir(path);
    cr_assert(folder, "%s", path);
    while ((entry = readdir(folder)))
        n += strncmp(entry->d_name, PCH_FOLDER_PREFIX, sizeof PCH_FOLDER_PREFIX - 1) == 0;
    closedir(folder);
    return n;
}

static bool no_folders(void *context)
{
    (void)context;
    return count_folders() == 0;
}

static pid_t zygote_pid(void)
{
    char *log = daemon_log(&daemon_);
    const char *at = strstr(log, "zygote.ready");
    cr_assert(at && (at = strstr(at, "pid=")));
    pid_t pid = (pid_t)atoi(at + 4);
    free(log);
    return pid;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The lines of a text, sorted. */
static char *sorted(struct text text)
{
    char *copy = strndup(text.at, text.size), *ret = calloc(1, text.size + 2), **lines, *rest = NULL;
    size_t n = 0, used = 0;
    lines = calloc(text.size + 1, sizeof *lines);
    cr_assert(copy && ret && lines);
    for (char *line = strtok_r(copy, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        lines[n++] = line;
    qsort(lines, n, sizeof *lines, by_text);
    for (size_t k = 0; k < n; k++)
        used += (size_t)sprintf(ret + used, "%s\n", lines[k]);
    free(lines);
    free(copy);
    return ret;
}

/* The code, and what the PTX says. NVRTC lays variables of headers that no code reads out in another order when they
 * come from a precompiled header; the file's table of symbols, and the lines of the PTX, follow it. */
static void expect_same_code(const struct kernel *a, const struct kernel *b)
{
    uint8_t digests[2][DIGEST_SIZE];
    struct error error = {0};
    cr_assert(code_sections_digest(a->image, digests[0], &error) == 0, "%s", error.text);
    cr_assert(code_sections_digest(b->image, digests[1], &error) == 0, "%s", error.text);
    cr_expect(memcmp(digests[0], digests[1], DIGEST_SIZE) == 0, "the code has changed");
    char *one = sorted((struct text){(const char *)a->ptx.at, a->ptx.size});
    char *two = sorted((struct text){(const char *)b->ptx.at, b->ptx.size});
    cr_expect(strlen(one) > 0 && strcmp(one, two) == 0, "the PTX has changed");
    free(one);
    free(two);
}

/* The same request to a daemon that uses no headers. bytes: the images are the same files, too. */
static void compare_with_bare(struct compile_request *request, const struct kernel *kernel, bool bytes)
{
    struct daemon_process other;
    struct wire bare;
    daemon_start(&other, &(struct daemon_options){.args = (const char *const[]){"--pch", "off", NULL}});
    wire_open(&bare, other.socket);
    const struct kernel *plain = get_kernel(&bare, request).kernel;
    cr_expect(memcmp(kernel->key, plain->key, DIGEST_SIZE) == 0, "the key has changed");
    cr_expect(message_equal(&kernel_entry_type, &kernel->entries[0], &plain->entries[0]));
    expect_same_code(kernel, plain);
    cr_expect(kernel->image.size == plain->image.size);
    cr_expect(!bytes || memcmp(kernel->image.at, plain->image.at, plain->image.size) == 0, "the image has changed");
    cr_expect(wire_stats(other.socket).pch_hits_total == 0);
    wire_close(&bare);
    daemon_finish(&other);
}

Test(zygotes, I1_the_third_program_begins_from_the_header)
{
    struct sample sample;
    begin(NULL);
    get_zygote();
    struct compile_reply reply = get_kernel(&wire, numbered(&sample, 3));
    struct stats_reply stats = wire_stats(daemon_.socket);
    cr_assert(stats.pch_hits_total == 1 && stats.zygote_forks_total == 1 && stats.pch_bytes > 0);
    cr_assert(stats.pch_refused_total == 0 && stats.pch_unequal_total == 0 && stats.zygote_failures_total == 0);
    cr_assert(!strstr(reply.kernel->log.at, "precompiled"), "%s", reply.kernel->log.at);
    compare_with_bare(&sample.request, reply.kernel, true);
    cr_assert(count_folders() == 1);
    daemon_stop_in_order(&daemon_);
    cr_assert(count_folders() == 0, "something is left");
}

/* A kernel on the C++ library of the toolkit, another one for every number. */
static struct compile_request *with_library(struct sample *ret, unsigned number)
{
    static char text[1024];
    snprintf(text, sizeof text,
             "// kernel %u\n#include <cuda/std/tuple>\n#include <cuda/std/complex>\n"
             "extern \"C\" __global__ void k(cuda::std::complex<float> *p, int *q) {\n"
             "  cuda::std::tuple<int, float> t(*q, %u.5f);\n"
             "  p[1] = p[0] * cuda::std::complex<float>(cuda::std::get<1>(t), 1.0f);\n"
             "  *q = cuda::std::get<0>(t) + %u;\n}\n",
             number, number, number);
    sample_code(ret, text, "k")->with_image = true;
    ret->request.with_ptx = true;
    ret->options.toolkit_headers = true;
    return &ret->request;
}

Test(zygotes, I1_with_headers_of_the_toolkit)
{
    struct sample sample;
    struct compile_reply reply;
    struct failure failure;
    begin(NULL);
    if (wire_call(&wire, METHOD_COMPILE, with_library(&sample, 1), &reply, &failure) != 0)
        cr_skip("no toolkit headers here: %s", failure.text.at);
    get_kernel(&wire, with_library(&sample, 2));
    BECOMES(zygotes, 1);
    reply = get_kernel(&wire, with_library(&sample, 3));
    struct stats_reply stats = wire_stats(daemon_.socket);
    cr_assert(stats.pch_hits_total == 1 && stats.pch_refused_total == 0, "%s", daemon_log(&daemon_));
    compare_with_bare(&sample.request, reply.kernel, false);
    daemon_stop_in_order(&daemon_);
    cr_assert(count_folders() == 0, "something is left");
}

Test(zygotes, other_arguments_are_another_header)
{
    struct sample sample;
    begin(NULL);
    get_zygote();
    numbered(&sample, 3);
    sample.options.max_registers = 40;
    sample.options.has_max_registers = true;
    get_kernel(&wire, &sample.request);
    cr_assert(wire_stats(daemon_.socket).pch_hits_total == 1, "the limit of registers does not matter");
    numbered(&sample, 3);
    sample.options.fast_math = true;
    get_kernel(&wire, &sample.request);
    numbered(&sample, 3);
    sample.options.line_info = true;
    get_kernel(&wire, &sample.request);
    cr_assert(wire_stats(daemon_.socket).pch_hits_total == 1);
    daemon_stop_in_order(&daemon_);
}

Test(zygotes, failures_are_the_same)
{
    struct sample sample;
    struct failure first, second;
    const char *code = "extern \"C\" __global__ void k(int *p) {\n  *p = missing;\n}\n";
    begin(NULL);
    first = fail_kernel(&wire, heavy(&sample, code), STATUS_COMPILE_FAILED, "missing");
    get_zygote();
    char again[256];
    snprintf(again, sizeof again, "%s// again\n", code);
    second = fail_kernel(&wire, heavy(&sample, again), STATUS_COMPILE_FAILED, "missing");
    cr_assert(wire_stats(daemon_.socket).pch_hits_total == 1);
    cr_assert_str_eq(first.text.at, second.text.at);
    cr_assert_str_eq(first.log.at, second.log.at);
    cr_assert(first.n_diagnostics == second.n_diagnostics);
    daemon_stop_in_order(&daemon_);
}

Test(zygotes, F3_a_child_that_hangs)
{
    static char code[4096];
    struct sample sample;
    size_t used = (size_t)snprintf(code, sizeof code, "#define A0 1 +\n");
    for (int i = 1; i <= 30; i++)
        used += (size_t)snprintf(code + used, sizeof code - used, "#define A%d A%d A%d\n", i, i - 1, i - 1);
    snprintf(code + used, sizeof code - used, "__device__ int x = A30 1;\nextern \"C\" __global__ void k() {}\n");
    begin(NULL);
    get_zygote();
    heavy(&sample, code)->deadline_ms = 600;
    sample.request.has_deadline_ms = true;
    long start = clock_ms();
    fail_kernel(&wire, &sample.request, STATUS_TIMEOUT, "600 ms");
    long took = clock_ms() - start;
    cr_assert(took >= 600 && took < 600 + 2000, "%ld ms", took);
    struct stats_reply stats = wire_stats(daemon_.socket);
    cr_assert(stats.worker_timeouts_total == 1 && stats.worker_retries_total == 0 && stats.zygote_forks_total == 1);
    cr_assert(daemon_log_count(&daemon_, "worker.timeout") == 1);
    get_kernel(&wire, numbered(&sample, 3));
    cr_assert(wire_stats(daemon_.socket).pch_hits_total == 1, "the zygote lives on");
    BECOMES(workers_busy, 0);
    daemon_stop_in_order(&daemon_);
}

static struct compile_request *slow(struct sample *ret)
{
    return heavy(ret, "extern \"C\" __global__ void k(double *p) {\n  double v = *p;\n"
                      "#pragma unroll\n  for (int i = 0; i < 10; i++) v = sin(v) + pow(v, cos(v));\n  *p = v;\n}\n");
}

static bool has_child(void *context)
{
    pid_t pid;
    return process_children(*(pid_t *)context, &pid, 1) == 1;
}

Test(zygotes, F2_a_killed_child)
{
    struct sample sample;
    struct compile_reply reply;
    pid_t pid, child;
    begin(NULL);
    get_zygote();
    pid = zygote_pid();
    uint32_t id = wire_ask(&wire, METHOD_COMPILE, slow(&sample));
    cr_assert(becomes_true(has_child, &pid, DAEMON_PATIENCE_MS));
    cr_assert(process_children(pid, &child, 1) == 1 && kill(child, SIGKILL) == 0);
    cr_assert(wire_answer(&wire, id, METHOD_COMPILE, &reply, NULL) == 0);
    struct stats_reply stats = wire_stats(daemon_.socket);
    cr_assert(stats.worker_retries_total == 1 && stats.worker_crashes_total == 1 && stats.pch_hits_total == 0);
    cr_assert(stats.zygotes == 1);
    cr_assert(daemon_log_count(&daemon_, "worker.died") == 1);
    daemon_stop_in_order(&daemon_);
}

Test(zygotes, F2_a_killed_zygote)
{
    struct sample sample;
    struct compile_reply reply;
    pid_t pid;
    begin(NULL);
    get_zygote();
    pid = zygote_pid();
    uint32_t id = wire_ask(&wire, METHOD_COMPILE, slow(&sample));
    cr_assert(becomes_true(has_child, &pid, DAEMON_PATIENCE_MS));
    cr_assert(kill(pid, SIGKILL) == 0);
    cr_assert(wire_answer(&wire, id, METHOD_COMPILE, &reply, NULL) == 0, "an ordinary worker compiles it");
    BECOMES(zygotes, 0);
    struct stats_reply stats = wire_stats(daemon_.socket);
    cr_assert(stats.zygote_failures_total == 1 && stats.pch_bytes == 0);
    cr_assert(daemon_log_count(&daemon_, "zygote.failed") == 1);
    cr_assert(becomes_true(no_folders, NULL, DAEMON_PATIENCE_MS));
    /* It is not tried again for a while. */
    for (unsigned i = 3; i < 6; i++)
        get_kernel(&wire, numbered(&sample, i));
    cr_assert(wire_stats(daemon_.socket).zygote_starts_total == 1);
    daemon_stop_in_order(&daemon_);
}

Test(zygotes, F1_what_a_killed_daemon_leaves)
{
    struct sample sample;
    begin(NULL);
    get_zygote();
    cr_assert(count_folders() == 1);
    daemon_kill(&daemon_);
    cr_assert(count_folders() == 1);
    wire_close(&wire);
    daemon_restart(&daemon_, NULL);
    /* Its lock holds a folder for as long as its zygote lives, or a child of that. */
    cr_assert(becomes_true(no_folders, NULL, DAEMON_PATIENCE_MS));
    wire_open(&wire, daemon_.socket);
    cr_assert(get_kernel(&wire, numbered(&sample, 1)).outcome == OUTCOME_HIT_DATABASE);
    daemon_stop_in_order(&daemon_);
}

Test(zygotes, eight_programs_at_once)
{
    enum { N = 8 };
    struct wire wires[N];
    struct sample samples[N];
    uint32_t ids[N];
    struct compile_reply reply;
    begin((const char *const[]){"--workers", "8", NULL});
    get_zygote();
    for (unsigned i = 0; i < N; i++) {
        wire_open(&wires[i], daemon_.socket);
        ids[i] = wire_ask(&wires[i], METHOD_COMPILE, numbered(&samples[i], 10 + i));
    }
    for (unsigned i = 0; i < N; i++) {
        cr_assert(wire_answer(&wires[i], ids[i], METHOD_COMPILE, &reply, NULL) == 0);
        cr_assert(reply.outcome == OUTCOME_COMPILED);
        wire_close(&wires[i]);
    }
    struct stats_reply stats = wire_stats(daemon_.socket);
    cr_assert(stats.pch_hits_total == N && stats.worker_crashes_total == 0);
    BECOMES(workers_busy, 0);
    daemon_stop_in_order(&daemon_);
}

Test(zygotes, one_that_nobody_needs_goes)
{
    begin((const char *const[]){"--pch-idle-ms", "300", NULL});
    wire_close(&wire);
    struct base_line base = base_line_take(&daemon_);
    wire_open(&wire, daemon_.socket);
    get_zygote();
    BECOMES(zygotes, 0);
    cr_assert(becomes_true(no_folders, NULL, DAEMON_PATIENCE_MS));
    cr_assert(wire_stats(daemon_.socket).zygote_failures_total == 0);
    wire_close(&wire);
    base_line_check(&base);
    daemon_stop_in_order(&daemon_);
}

Test(zygotes, off_is_off)
{
    struct sample sample;
    begin((const char *const[]){"--pch", "off", NULL});
    for (unsigned i = 1; i < 4; i++)
        get_kernel(&wire, numbered(&sample, i));
    struct stats_reply stats = wire_stats(daemon_.socket);
    cr_assert(stats.zygote_starts_total == 0 && stats.pch_hits_total == 0);
    daemon_stop_in_order(&daemon_);
}
