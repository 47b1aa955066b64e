/* The main job for the host device: the same fusions, compiled by the system's C++ compiler, once. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/integration/daemon/fixture.h"
#include "tests/integration/daemon/job.h"

#define TARGET "host"

static struct daemon_process daemon_;

/* As if there were no NVRTC: its absence is no business of the host device. */
static const struct daemon_options no_nvrtc = {.args =
                                                   (const char *const[]){"--nvrtc", "/nonexistent/libnvrtc.so", NULL}};

static void start_or_skip(const struct daemon_options *options)
{
    struct sample sample;
    struct compile_reply reply;
    struct failure failure = {0};
    struct wire wire;
    daemon_start(&daemon_, options);
    wire_open(&wire, daemon_.socket);
    sample_code(&sample, "__global__ void k() {}\n", "k");
    sample.fusion.target = TEXT_OF(TARGET);
    sample.options.no_magic_zero = true; /* no test's kernel */
    unsigned code = wire_call(&wire, METHOD_COMPILE, &sample.request, &reply, &failure);
    bool missing = code == STATUS_COMPILER_UNAVAILABLE && strstr(failure.text.at, "there is no g++");
    cr_assert(code == 0 || missing, "%u: %s", code, failure.text.at);
    wire_close(&wire);
    if (missing)
        cr_skip("no C++ compiler here");
}

static void setup(void)
{
    start_or_skip(&no_nvrtc);
}

static void teardown(void)
{
    daemon_finish(&daemon_);
}

TestSuite(host_job, .init = setup, .fini = teardown);

/* A 64-bit little-endian ELF shared object for a CPU. */
static bool is_shared_object(const struct fusiond_kernel *kernel)
{
    size_t size;
    const unsigned char *image = fusiond_kernel_image(kernel, &size);
    return image && size > 64 && memcmp(image, "\177ELF\2\1", 6) == 0 && image[16] == 3 && image[18] != 190;
}

Test(host_job, B9_1_four_fusions_compile_once)
{
    struct fusiond_connection *connection = job_connect(&daemon_);
    uint64_t images[JOB_FUSIONS];
    for (size_t i = 0; i < JOB_FUSIONS; i++) {
        size_t size;
        struct fusiond_kernel *kernel = job_compile(connection, job_fusions[i], TARGET, NULL);
        cr_assert_str_eq(fusiond_kernel_outcome(kernel), "compiled");
        cr_assert(fusiond_kernel_stored(kernel));
        cr_assert(is_shared_object(kernel), "%s", job_fusions[i]);
        cr_assert(fusiond_kernel_ptx(kernel, &size) == NULL);
        cr_assert(fusiond_kernel_entries(kernel) == 1);
        cr_assert_str_eq(fusiond_kernel_entry(kernel, 0).name, job_fusions[i]);
        images[i] = job_fingerprint(kernel);
        fusiond_kernel_destroy(kernel);
    }
    cr_assert(job_stat(connection, "compiles_total") == JOB_FUSIONS + 1);

    struct job_seen second = job_in_another_process(&daemon_, TARGET);
    for (size_t i = 0; i < JOB_FUSIONS; i++) {
        cr_assert_str_eq(second.outcomes[i], "hit_memory");
        cr_assert(second.images[i] == images[i]);
    }
    fusiond_close(connection);

    daemon_stop_in_order(&daemon_);
    daemon_restart(&daemon_, &no_nvrtc);
    struct job_seen third = job_in_another_process(&daemon_, TARGET);
    for (size_t i = 0; i < JOB_FUSIONS; i++) {
        cr_assert_str_eq(third.outcomes[i], "hit_database");
        cr_assert(third.images[i] == images[i]);
    }
    connection = job_connect(&daemon_);
    cr_assert(job_stat(connection, "compiles_total") == 0);
    cr_assert(job_stat(connection, "worker_starts_total") == 0);
    fusiond_close(connection);
    daemon_stop_in_order(&daemon_);
}

Test(host_job, F18_eight_processes_on_an_empty_cache)
{
    daemon_stop_in_order(&daemon_);
    unlink(daemon_.database);
    daemon_restart(&daemon_, &no_nvrtc);
    job_in_eight_processes(&daemon_, TARGET);
    daemon_stop_in_order(&daemon_);
}

static struct compile_request *host_code(struct sample *sample, const char *code)
{
    struct compile_request *request = sample_code(sample, code, "k");
    sample->fusion.target = TEXT_OF(TARGET);
    return request;
}

Test(host_job, B3_2_a_failure_carries_log_and_diagnostics)
{
    struct wire wire;
    struct sample sample;
    wire_open(&wire, daemon_.socket);
    struct failure failure =
        fail_kernel(&wire, host_code(&sample, "__global__ void k(int *p)\n{\n    *p = nothing;\n}\n"),
                    STATUS_COMPILE_FAILED, "fusion.cu:3: 'nothing' was not declared in this scope (1 error)");
    cr_assert(failure.n_diagnostics == 1 && failure.diagnostics[0].line == 3 && failure.diagnostics[0].column == 10);
    cr_assert(strstr(failure.log.at, "nothing") && !strstr(failure.log.at, daemon_.cache));
    failure = fail_kernel(&wire, host_code(&sample, "__global__ void k() { asm(\"bar.sync 0;\"); }\n"),
                          STATUS_COMPILE_FAILED, "fusion.cu:1: inline PTX (asm) cannot run on the host device");
    wire_close(&wire);
}

/* Two targets of one code are two kernels, and a key names its compiler. */
Test(host_job, B1_1_the_record_names_its_compiler)
{
    struct wire wire;
    struct sample sample;
    wire_open(&wire, daemon_.socket);
    struct compile_reply reply = get_kernel(&wire, host_code(&sample, "__global__ void k() {}\n"));
    cr_assert(reply.kernel != NULL);
    cr_assert_str_eq(reply.kernel->target.at, "host");
    cr_assert(reply.kernel->image_kind == IMAGE_KIND_SHARED_OBJECT);
    cr_assert(strncmp(reply.kernel->compiler.at, "g++ ", 4) == 0, "%s", reply.kernel->compiler.at);
    wire_close(&wire);
}

/* Processes that work in a folder below the daemon's cache: the compiler's. */
static bool tools_run(void *unused)
{
    DIR *proc = opendir("/proc");
    const struct dirent *entry;
    bool found = false;
    (void)unused;
    while (!found && (entry = readdir(proc)) != NULL) {
        char path[300], folder[4096];
        snprintf(path, sizeof path, "/proc/%.20s/cwd", entry->d_name);
        ssize_t n = readlink(path, folder, sizeof folder - 1);
        folder[n > 0 ? n : 0] = '\0';
        found = strstr(folder, daemon_.directory) && strstr(folder, "/host-cc.");
    }
    closedir(proc);
    return found;
}

static bool no_tools_run(void *unused)
{
    return !tools_run(unused);
}

/* Constants that take very long. */
static struct compile_request *endless(struct sample *sample, char *code, size_t size)
{
    char *at = code, *end = code + size;
    at += snprintf(at, (size_t)(end - at),
                   "template <int S> constexpr unsigned spin() { unsigned x = S; for (int a = 0; a < 2000; a++)\n"
                   "for (int b = 0; b < 2000; b++) x = x * 3 + b; return x; }\n__global__ void k() {}\n");
    for (int i = 0; i < 500; i++)
        at += snprintf(at, (size_t)(end - at), "constexpr unsigned v%d = spin<%d>();\n", i, i);
    return host_code(sample, code);
}

/* The deadline ends the worker, and with it every process that it has started; the next compile works. */
Test(host_job, F3_a_hang_is_killed_with_all_its_processes)
{
    static char code[65536];
    struct wire wire;
    struct sample sample;
    wire_open(&wire, daemon_.socket);
    struct compile_request *request = endless(&sample, code, sizeof code);
    request->deadline_ms = 1500;
    request->has_deadline_ms = true;
    uint32_t id = wire_ask(&wire, METHOD_COMPILE, request);
    cr_assert(becomes_true(tools_run, NULL, DAEMON_PATIENCE_MS));
    long before = clock_ms();
    struct compile_reply reply;
    struct failure failure = {0};
    unsigned got = wire_answer(&wire, id, METHOD_COMPILE, &reply, &failure);
    cr_assert(got == STATUS_TIMEOUT, "%u: %s", got, failure.text.at);
    cr_assert(clock_ms() - before < 10000, "%ld ms", clock_ms() - before);
    cr_assert(becomes_true(no_tools_run, NULL, 5000), "something of the compiler outlived its deadline");
    get_kernel(&wire, host_code(&sample, "__global__ void k(int *p) { *p = 3; }\n"));
    cr_assert(wire_stats(daemon_.socket).compiles_total == 2);
    wire_close(&wire);
}

/* The daemon itself is killed: nothing of the compiler stays. */
Test(host_job, F1_a_killed_daemon_leaves_no_compiler)
{
    static char code[65536];
    struct wire wire;
    struct sample sample;
    wire_open(&wire, daemon_.socket);
    wire_ask(&wire, METHOD_COMPILE, endless(&sample, code, sizeof code));
    cr_assert(becomes_true(tools_run, NULL, DAEMON_PATIENCE_MS));
    daemon_kill(&daemon_);
    cr_assert(becomes_true(no_tools_run, NULL, 5000), "something of the compiler outlived the daemon");
    wire_close(&wire);
}

Test(host_job, F4_stack)
{
    static char code[400000];
    struct wire wire;
    struct sample sample;
    char *at = stpcpy(code, "__global__ void k() {}\nint ");
    memset(at, '*', 300000);
    strcpy(at + 300000, "p;\n");
    wire_open(&wire, daemon_.socket);
    fail_kernel(&wire, host_code(&sample, code), STATUS_RESOURCE_LIMIT, "stack");
    get_kernel(&wire, host_code(&sample, "__global__ void k(int *p) { *p = 4; }\n"));
    wire_close(&wire);
}

/* A missing compiler is the business of its own targets. */
Test(host_job, B2_2_each_compiler_is_missed_by_its_own_targets)
{
    struct wire wire;
    struct sample sample;
    struct hello_request hello = {
        .protocol_min = 1, .has_protocol_min = true, .protocol_max = 1, .has_protocol_max = true};
    struct hello_reply greeting;
    wire_connect(&wire, daemon_.socket);
    cr_assert(wire_call(&wire, METHOD_HELLO, &hello, &greeting, NULL) == 0);
    cr_assert(greeting.n_compilers == 1);
    cr_assert_str_eq(greeting.compilers[0].name.at, "g++");
    cr_assert(greeting.compilers[0].has_build && greeting.compilers[0].n_targets == 1);
    cr_assert_str_eq(greeting.compilers[0].targets[0].at, "host");
    fail_kernel(&wire, sample_kernel(&sample, 1), STATUS_COMPILER_UNAVAILABLE, "/nonexistent/libnvrtc.so");
    get_kernel(&wire, host_code(&sample, "__global__ void k(int *p) { *p = 5; }\n"));
    wire_close(&wire);
    daemon_stop_in_order(&daemon_);

    const struct daemon_options no_host = {.args = (const char *const[]){"--host-cc", "/nonexistent/g++", NULL}};
    daemon_restart(&daemon_, &no_host);
    wire_open(&wire, daemon_.socket);
    fail_kernel(&wire, host_code(&sample, "__global__ void k(int *p) { *p = 6; }\n"), STATUS_COMPILER_UNAVAILABLE,
                "/nonexistent/g++");
    struct failure failure = {0};
    struct compile_reply reply;
    unsigned code = wire_call(&wire, METHOD_COMPILE, sample_kernel(&sample, 1), &reply, &failure);
    cr_assert(code == 0 || (code == STATUS_COMPILER_UNAVAILABLE && !strstr(failure.text.at, "g++")), "%s",
              failure.text.at);
    wire_close(&wire);
}
