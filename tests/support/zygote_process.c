#include "tests/support/zygote_process.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/envelope.h"

static void send_message(struct zygote_process *zygote, const struct message_type *type, const void *message)
{
    msgpack_sbuffer out;
    msgpack_sbuffer_init(&out);
    cr_assert(envelope_write_message(&out, type, message) == 0);
    cr_assert(compiler_process_write(&zygote->process, out.data, out.size) == 0, "the zygote does not listen");
    msgpack_sbuffer_destroy(&out);
}

void zygote_process_start(struct zygote_process *ret, const char *prefix, const struct worker_job *sample,
                          msgpack_zone *zone, struct zygote_ready *ret_ready)
{
    struct zygote_setup setup = {.prefix = text_of(prefix)};
    struct error error = {0};
    struct worker_ready bare;
    struct compiler_process worker;
    /* A worker says whether there is an NVRTC at all, and a test is skipped where there is not. */
    compiler_process_start_or_skip(&worker, NULL, zone, &bare);
    compiler_process_finish(&worker);
    if (bare.major < 13)
        cr_skip("precompiled headers need NVRTC 13, this is %d.%d", (int)bare.major, (int)bare.minor);
    *ret = (struct zygote_process){.parent = "/tmp/fusiond-zygote-XXXXXX"};
    cr_assert(mkdtemp(ret->parent) != NULL);
    snprintf(ret->folder, sizeof ret->folder, "%s/pch.test", ret->parent);
    const char *const args[] = {"--zygote", "--work-dir", ret->folder, NULL};
    cr_assert(compiler_process_start(&ret->process, args) == 0);
    send_message(ret, &zygote_setup_type, &setup);
    send_message(ret, &worker_job_type, sample);
    if (compiler_process_read(&ret->process, &zygote_ready_type, zone, ret_ready, &error) < 0)
        *ret_ready = (struct zygote_ready){.error = TEXT_OF("it has died before it was ready")};
}

static void send_descriptors(int channel, const msgpack_sbuffer *frame, const int *fds)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(2 * sizeof(int))];
    } control = {0};
    struct iovec part = {frame->data, frame->size};
    struct msghdr header = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    control.header = (struct cmsghdr){CMSG_LEN(2 * sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(&control.header), fds, 2 * sizeof(int));
    cr_assert(sendmsg(channel, &header, MSG_NOSIGNAL) == (ssize_t)frame->size);
}

void zygote_process_fork(struct zygote_process *zygote, msgpack_zone *zone, struct compiler_process *ret,
                         pid_t *ret_pid)
{
    struct zygote_fork fork = {.id = ++zygote->forks, .has_id = true};
    struct zygote_forked forked;
    struct error error;
    msgpack_sbuffer out;
    int pair[2], errors[2];
    cr_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0 && pipe(errors) == 0);
    msgpack_sbuffer_init(&out);
    cr_assert(envelope_write_message(&out, &zygote_fork_type, &fork) == 0);
    send_descriptors(zygote->process.channel, &out, (const int[]){pair[1], errors[1]});
    msgpack_sbuffer_destroy(&out);
    close(pair[1]);
    close(errors[1]);
    /* The pidfd that comes with it is dropped by a plain read. */
    cr_assert(compiler_process_read(&zygote->process, &zygote_forked_type, zone, &forked, &error) == 0, "%s",
              error.text);
    cr_assert(forked.id == fork.id && !forked.error.at && forked.has_pid, "%s", forked.error.at);
    *ret = (struct compiler_process){.channel = pair[0], .errors = errors[0]};
    frame_reader_init(&ret->reader, LIMIT_FRAME_WORKER);
    *ret_pid = (pid_t)forked.pid;
}

struct zygote_exited zygote_process_exited(struct zygote_process *zygote, msgpack_zone *zone)
{
    struct zygote_exited exited = {0};
    struct error error;
    cr_assert(compiler_process_read(&zygote->process, &zygote_exited_type, zone, &exited, &error) == 0, "%s",
              error.text);
    return exited;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
    (void)status, (void)ftw;
    return type == FTW_DP ? rmdir(path) : unlink(path);
}

void zygote_process_finish(struct zygote_process *zygote)
{
    if (zygote->process.pid > 0)
        compiler_process_finish(&zygote->process);
    if (zygote->parent[0])
        nftw(zygote->parent, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    zygote->parent[0] = '\0';
}

struct job_header heavy_header(msgpack_zone *zone)
{
    enum { TEMPLATES = 4000, SLOW = 128, ROOM = 200 };
    char *text = msgpack_zone_malloc(zone, (TEMPLATES + SLOW + 1) * ROOM);
    cr_assert(text != NULL);
    /* What the compiler computes itself takes it a while, and is not computed again from a precompiled header. */
    size_t used = (size_t)snprintf(text, ROOM,
                                   "template <int n> __device__ constexpr int slow(int i) { return i < 2 ? i : "
                                   "slow<n>(i - 1) + slow<n>(i - 2); }\n");
    for (int i = 0; i < SLOW; i++)
        used += (size_t)snprintf(text + used, ROOM, "static_assert(slow<%d>(20) == 6765, \"\");\n", i);
    for (int i = 0; i < TEMPLATES; i++)
        used +=
            (size_t)snprintf(text + used, ROOM,
                             "template <class T> struct heavy%d { T v; __device__ T twice() const { return v + v; } "
                             "};\nstatic_assert(sizeof(heavy%d<int>) == 4, \"\");\n",
                             i, i);
    return (struct job_header){.name = TEXT_OF("heavy.h"), .bytes = {(const uint8_t *)text, used}};
}
