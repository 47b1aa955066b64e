#include "tests/integration/daemon/fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct compile_request *sample_code(struct sample *ret, const char *code, const char *entry)
{
    *ret = (struct sample){0};
    ret->entries[0] = text_of(entry);
    ret->fusion = (struct fusion){
        .code = text_of(code),
        .entries = ret->entries,
        .n_entries = entry != NULL,
        .structured = true,
        .target = TEXT_OF("sm_90a"),
        .side_effects_only = true,
        .compile = &ret->options,
    };
    ret->request = (struct compile_request){.fusion = &ret->fusion};
    return &ret->request;
}

struct compile_request *sample_kernel(struct sample *ret, unsigned number)
{
    sample_code(ret, "", "k");
    snprintf(ret->code, sizeof ret->code, "extern \"C\" __global__ void k(unsigned *out) { *out = %uu; }\n", number);
    ret->fusion.code = text_of(ret->code);
    return &ret->request;
}

struct compile_request *sample_hang(struct sample *ret)
{
    static char code[2048];
    size_t used = (size_t)snprintf(code, sizeof code, "#define A0 1 +\n");
    for (int i = 1; i <= 30; i++)
        used += (size_t)snprintf(code + used, sizeof code - used, "#define A%d A%d A%d\n", i, i - 1, i - 1);
    snprintf(code + used, sizeof code - used, "__device__ int x = A30 1;\nextern \"C\" __global__ void k() {}\n");
    sample_code(ret, code, "k")->deadline_ms = 600;
    ret->request.has_deadline_ms = true;
    return &ret->request;
}

struct compile_reply get_kernel(struct wire *wire, const struct compile_request *request)
{
    struct compile_reply reply;
    struct failure failure = {0};
    unsigned code = wire_call(wire, METHOD_COMPILE, request, &reply, &failure);
    cr_assert(code == 0, "%s: %s\n%s", failure.name.at, failure.text.at, failure.log.at ? failure.log.at : "");
    return reply;
}

struct failure fail_kernel(struct wire *wire, const struct compile_request *request, enum status code,
                           const char *words)
{
    struct compile_reply reply;
    struct failure failure = {0};
    unsigned got = wire_call(wire, METHOD_COMPILE, request, &reply, &failure);
    cr_assert(got == (unsigned)code, "%s: %s, not %s", status_name((enum status)got),
              failure.text.at ? failure.text.at : "a kernel", status_name(code));
    cr_assert(words == NULL || strstr(failure.text.at, words), "\"%s\" is not in \"%s\"", words, failure.text.at);
    return failure;
}

struct flights_wait {
    const struct daemon_process *daemon;
    uint64_t n;
};

static bool flights_are(void *context)
{
    const struct flights_wait *wait = context;
    return wire_stats(wait->daemon->socket).flights == wait->n;
}

void flights_become(const struct daemon_process *daemon, uint64_t n)
{
    struct flights_wait wait = {daemon, n};
    cr_assert(becomes_true(flights_are, &wait, DAEMON_PATIENCE_MS), "never %llu flights", (unsigned long long)n);
}

int some_descriptor(void)
{
    int fd = memfd_create("test", MFD_CLOEXEC);
    cr_assert(fd >= 0);
    return fd;
}

/* ---- the base line ---- */

/* Its channel and its stderr. */
#define FDS_PER_CHILD 2

static void look(struct base_line *ret)
{
    pid_t children[64];
    struct stats_reply stats = wire_stats(ret->daemon->socket);
    ret->workers = stats.workers;
    ret->pid = (pid_t)stats.pid;
    ret->connections = stats.connections - 1; /* ours */
    uint64_t known = stats.workers + stats.executors + stats.zygotes;
    ret->children = process_children(ret->daemon->pid, children, 64) - known;
    ret->descriptors = process_descriptors(ret->daemon->pid) - FDS_PER_CHILD * known;
}

static bool is_quiet(void *context)
{
    struct base_line *base = context;
    look(base);
    return base->children == 0 && base->connections == 0;
}

struct base_line base_line_take(const struct daemon_process *daemon)
{
    struct base_line base = {.daemon = daemon};
    cr_assert(becomes_true(is_quiet, &base, DAEMON_PATIENCE_MS), "%zu children, %llu connections", base.children,
              (unsigned long long)base.connections);
    return base;
}

static bool is_back(void *context)
{
    const struct base_line *base = context;
    struct base_line now = {.daemon = base->daemon};
    look(&now);
    return now.descriptors <= base->descriptors && now.children <= base->children &&
           now.connections <= base->connections;
}

void base_line_check(const struct base_line *base)
{
    struct base_line now = {.daemon = base->daemon};
    bool back = becomes_true(is_back, (void *)base, 5000);
    look(&now);
    cr_assert(now.pid == base->pid, "the front's pid was %d and is %d", base->pid, now.pid);
    cr_assert(back, "after 5 s: %zu descriptors (%zu before), %zu children (%zu), %llu connections (%llu)",
              now.descriptors, base->descriptors, now.children, base->children, (unsigned long long)now.connections,
              (unsigned long long)base->connections);
}
