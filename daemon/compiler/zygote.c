#include "daemon/compiler/zygote.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "daemon/compiler/code_sections.h"
#include "daemon/compiler/job.h"
#include "daemon/compiler/pch.h"
#include "daemon/compiler/worker.h"
#include "daemon/sandbox/gate.h"
#include "daemon/sandbox/sandbox.h"
#include "daemon/sandbox/under_asan.h"
#include "proto/envelope.h"

/* Children at once. The front bounds them by its workers. */
#define CHILDREN 64
/* Descriptors that come with one zygote_fork, and that may wait to be claimed. */
#define FORK_FDS 2
#define WAITING_FDS 16
/* A header that saves less than this part of a compile is not worth its memory. */
#define WORTH_PERCENT 20

enum { CHANNEL = 3 };

struct child {
    pid_t pid; /* 0: no child */
    uint64_t id;
};

struct zygote {
    const struct zygote_compiler *compiler;
    struct channel *channel;
    struct pch pch;
    const char *gate[TOOLKIT_FOLDERS + 2];
    int status_file; /* /proc/self/stat: how many threads there are */
    enum sandbox sandbox;
    bool unequal;
    uint64_t plain_ns, header_ns;
    struct child children[CHILDREN];
    int fds[WAITING_FDS]; /* have come, and belong to the next zygote_fork */
    size_t n_fds;
};

static void complain(const struct error *error)
{
    fprintf(stderr, "fusiond-compiler: %s\n", error->text);
}

/* ---- the wall ---- */

/* The header is made of what a client sent, so even its making happens in here. */
static int shut_in(struct zygote *zygote, struct error *error)
{
    const struct toolkit *toolkit = zygote->compiler->toolkit;
    const char *const work[] = {zygote->pch.folder, NULL};
    struct sandbox_paths paths = {.work = work, .read = toolkit ? toolkit->paths : NULL};
    size_t n = 0;
    zygote->gate[n++] = zygote->pch.folder;
    for (size_t i = 0; toolkit && i < toolkit->n; i++)
        zygote->gate[n++] = toolkit->folders[i];
    if (gate_install(zygote->gate, error) < 0)
        return -1;
    zygote->sandbox = sandbox_enter(SANDBOX_ZYGOTE, &paths);
    if (zygote->sandbox != SANDBOX_FULL && !UNDER_ASAN)
        return error_set(error, STATUS_SYSTEM,
                         "precompiled headers need Landlock and seccomp, which this kernel lacks");
    return 0;
}

/* Once the header is made, nothing changes it. Landlock's rules add up to what all of them allow. */
static int protect_header(const struct zygote *zygote, struct error *error)
{
    const struct toolkit *toolkit = zygote->compiler->toolkit;
    const char *const work[] = {zygote->pch.temporary, NULL};
    const char *read[TOOLKIT_FOLDERS + 2] = {zygote->pch.folder};
    for (size_t i = 0; toolkit && i < toolkit->n; i++)
        read[i + 1] = toolkit->folders[i];
    if (sandbox_landlock(&(struct sandbox_paths){.work = work, .read = read}) < 0)
        return error_set(error, STATUS_SYSTEM, "the precompiled header cannot be protected");
    return 0;
}

/* ---- forking ---- */

/* Only the thread that forks lives on in the child: a compiler with others would wait for them for ever. */
static int count_threads(const struct zygote *zygote)
{
    char text[1024];
    int threads = 0;
    ssize_t n = lseek(zygote->status_file, 0, SEEK_SET) < 0 ? -1 : read(zygote->status_file, text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    /* The program's name, in brackets, may hold anything. */
    const char *at = strrchr(text, ')');
    return at && sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %d", &threads) ==
                       1
               ? threads
               : 0;
}

/* -1 with an error; else as fork(). The child dies with its parent. */
static pid_t fork_child(const struct zygote *zygote, struct error *error)
{
    pid_t self = getpid();
    int threads = count_threads(zygote);
    if (threads != 1)
        return error_set(error, STATUS_SYSTEM, "the zygote has %d threads", threads);
    pid_t pid = fork();
    if (pid < 0)
        return error_set_errno(error, STATUS_SYSTEM, errno, "forking a worker");
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != self)
        _exit(WORKER_EXIT_ORPHAN);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    return 0;
}

/* What a child does without, from then on: before it reads anything of a client's. */
static void shut_in_child(void)
{
    if (!UNDER_ASAN && sandbox_seccomp(SANDBOX_ZYGOTE_CHILD) < 0)
        _exit(WORKER_EXIT_SYSTEM);
}

/* ---- the proof ---- */

/* What a child found, in memory that both see. */
struct finding {
    bool done;
    bool used;
    uint64_t result;
    uint64_t ns;
    uint8_t code[DIGEST_SIZE];
    struct error error;
};

static uint64_t processor_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void compile_sample(const struct zygote *zygote, const struct worker_job *job, msgpack_zone *zone, bool plain,
                           struct finding *ret)
{
    struct worker_result result;
    uint64_t started = processor_ns();
    sandbox_allow_job();
    int failed = plain ? job_run(zygote->compiler->nvrtc, job, zone, &result, &ret->error)
                       : pch_run(&zygote->pch, zygote->compiler->nvrtc, job, zone, &result, &ret->used, &ret->error);
    ret->ns = processor_ns() - started;
    if (failed < 0)
        return;
    ret->result = result.result;
    ret->done =
        result.result != NVRTC_RESULT_SUCCESS || code_sections_digest(result.image, ret->code, &ret->error) == 0;
}

static pid_t start_sample(const struct zygote *zygote, const struct worker_job *job, msgpack_zone *zone, bool plain,
                          struct finding *ret, struct error *error)
{
    pid_t pid = fork_child(zygote, error);
    if (pid != 0)
        return pid;
    shut_in_child();
    compile_sample(zygote, job, zone, plain, ret);
    _exit(WORKER_EXIT_DONE);
}

static int wait_for_sample(pid_t pid, const char *how, const struct finding *finding, struct error *error)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return error_set_errno(error, STATUS_SYSTEM, errno, "waiting for a child");
    if (!finding->done)
        return error_set(error, STATUS_SYSTEM, "the sample was not compiled %s: status %x %.300s", how,
                         (unsigned)status, finding->error.code ? finding->error.text : "");
    if (finding->result != NVRTC_RESULT_SUCCESS)
        return error_set(error, STATUS_COMPILE_FAILED, "the sample, which has compiled before, fails %s", how);
    return 0;
}

static int compare(struct zygote *zygote, const struct finding *plain, const struct finding *forked,
                   struct error *error)
{
    zygote->plain_ns = plain->ns;
    zygote->header_ns = forked->ns;
    if (!forked->used)
        return error_set(error, STATUS_COMPILE_FAILED, "the compiler does not use the precompiled header");
    if (memcmp(plain->code, forked->code, DIGEST_SIZE) != 0) {
        zygote->unequal = true;
        return error_set(error, STATUS_COMPILE_FAILED,
                         "the code of the sample is not equal with the precompiled header");
    }
    if (forked->ns > plain->ns / 100 * (100 - WORTH_PERCENT))
        return error_set(error, STATUS_COMPILE_FAILED,
                         "the precompiled header is not worth it: the sample takes %.0f ms with it, %.0f without",
                         (double)forked->ns / 1e6, (double)plain->ns / 1e6);
    return 0;
}

/* Make the header, while the sample is compiled without it; then compile it from the header. */
static int make_and_prove(struct zygote *zygote, struct text prefix, const struct worker_job *job, msgpack_zone *zone,
                          struct error *error)
{
    struct finding *findings =
        mmap(NULL, 2 * sizeof *findings, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (findings == MAP_FAILED)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the findings of children");
    pid_t plain = start_sample(zygote, job, zone, true, &findings[0], error);
    if (plain < 0)
        return -1;
    sandbox_allow_job();
    if (pch_make(&zygote->pch, zygote->compiler->nvrtc, prefix, job, zone, error) < 0 ||
        protect_header(zygote, error) < 0 || wait_for_sample(plain, "without the header", &findings[0], error) < 0)
        return -1;
    pid_t forked = start_sample(zygote, job, zone, false, &findings[1], error);
    if (forked < 0 || wait_for_sample(forked, "with the header", &findings[1], error) < 0 ||
        compare(zygote, &findings[0], &findings[1], error) < 0)
        return -1;
    munmap(findings, 2 * sizeof *findings);
    return 0;
}

/* ---- a worker's life ---- */

/* The worker's programs are keyed by the headers that the zygote started with. */
static int check_headers(const struct zygote_compiler *compiler, struct error *error)
{
    uint8_t headers[DIGEST_SIZE];
    if (!compiler->toolkit)
        return 0;
    if (toolkit_identity(compiler->toolkit, headers, error) < 0)
        return -1;
    if (memcmp(headers, compiler->headers, DIGEST_SIZE) != 0)
        return error_set(error, STATUS_COMPILER_UNAVAILABLE, "the toolkit's headers have changed");
    return 0;
}

static int work(const struct zygote *zygote, struct channel *channel, struct error *error)
{
    const uint8_t *frame;
    size_t size;
    struct worker_job job;
    struct worker_result result;
    msgpack_zone zone;
    bool used = false;
    int got = channel_read(channel, &frame, &size, error);
    if (got <= 0)
        return got == 0 ? WORKER_EXIT_DONE : WORKER_EXIT_CHANNEL;
    if (!msgpack_zone_init(&zone, MSGPACK_ZONE_CHUNK_SIZE)) {
        error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a job");
        return WORKER_EXIT_MEMORY;
    }
    sandbox_allow_job();
    if (check_headers(zygote->compiler, error) < 0)
        return WORKER_EXIT_REPLACED;
    if (envelope_read_message(frame, size, &worker_job_type, &zone, &job, error) < 0)
        return WORKER_EXIT_CHANNEL;
    if (pch_run(&zygote->pch, zygote->compiler->nvrtc, &job, &zone, &result, &used, error) < 0)
        return error->code == STATUS_SYSTEM ? WORKER_EXIT_SYSTEM : WORKER_EXIT_MEMORY;
    if (!used) {
        error_set(error, STATUS_SYSTEM, "the precompiled header was not used");
        return WORKER_EXIT_NO_PCH;
    }
    return channel_write_message(channel, &worker_result_type, &result, error) < 0 ? WORKER_EXIT_CHANNEL
                                                                                   : WORKER_EXIT_DONE;
}

/* One job, and the end: by _exit only, since the compiler's exit handlers would remove the parent's header. */
static _Noreturn void live(const struct zygote *zygote, const int *fds)
{
    struct channel channel;
    struct error error;
    /* The zygote's channel is closed by that. */
    if (dup2(fds[0], CHANNEL) < 0 || dup2(fds[1], STDERR_FILENO) < 0 || dup2(fds[1], STDOUT_FILENO) < 0)
        _exit(WORKER_EXIT_SYSTEM);
    close(fds[0]);
    close(fds[1]);
    shut_in_child();
    channel_init(&channel, CHANNEL);
    int code = work(zygote, &channel, &error);
    if (code != WORKER_EXIT_DONE)
        complain(&error);
    _exit(code);
}

/* ---- reports ---- */

/* A message with one descriptor. */
static int send_with(const struct channel *channel, const struct message_type *type, const void *message, int fd,
                     struct error *error)
{
    msgpack_sbuffer out;
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    msgpack_sbuffer_init(&out);
    if (envelope_write_message(&out, type, message) < 0)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a %s", type->name);
    struct iovec part = {out.data, out.size};
    struct msghdr header = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
    ssize_t n;
    while ((n = sendmsg(channel->fd, &header, MSG_NOSIGNAL)) < 0 && errno == EINTR)
        ;
    struct channel rest = {.fd = channel->fd};
    int failed = n < 0 ? error_set_errno(error, STATUS_SYSTEM, errno, "sending a descriptor")
                       : channel_write(&rest, out.data + n, out.size - (size_t)n, error);
    msgpack_sbuffer_destroy(&out);
    return failed;
}

static int report_end(const struct zygote *zygote, const struct child *child, int status, struct error *error)
{
    struct zygote_exited exited = {.id = child->id, .has_id = true, .has_status = true, .has_signal = true};
    exited.status = WIFEXITED(status) ? (uint64_t)WEXITSTATUS(status) : 0;
    exited.signal = WIFSIGNALED(status) ? (uint64_t)WTERMSIG(status) : 0;
    return channel_write_message(zygote->channel, &zygote_exited_type, &exited, error);
}

static int reap(struct zygote *zygote, struct error *error)
{
    pid_t pid;
    int status;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        for (size_t i = 0; i < CHILDREN; i++) {
            if (zygote->children[i].pid != pid)
                continue;
            zygote->children[i].pid = 0;
            if (report_end(zygote, &zygote->children[i], status, error) < 0)
                return -1;
        }
    }
    return 0;
}

/* ---- zygote_fork ---- */

static int refuse_fork(const struct zygote *zygote, uint64_t id, const char *why, struct error *error)
{
    struct zygote_forked forked = {.id = id, .has_id = true, .error = text_of(why)};
    return channel_write_message(zygote->channel, &zygote_forked_type, &forked, error);
}

static int answer_fork(struct zygote *zygote, uint64_t id, const int *fds, struct error *error)
{
    struct error why;
    struct child *child = zygote->children;
    while (child < zygote->children + CHILDREN && child->pid)
        child++;
    if (child == zygote->children + CHILDREN)
        return refuse_fork(zygote, id, "too many workers of one zygote", error);
    pid_t pid = fork_child(zygote, &why);
    if (pid == 0)
        live(zygote, fds);
    if (pid < 0)
        return refuse_fork(zygote, id, why.text, error);
    *child = (struct child){pid, id};
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd < 0) /* nobody could kill it */
        return error_set_errno(error, STATUS_SYSTEM, errno, "a descriptor of the worker");
    struct zygote_forked forked = {.id = id, .has_id = true, .pid = (uint64_t)pid, .has_pid = true};
    int failed = send_with(zygote->channel, &zygote_forked_type, &forked, pidfd, error);
    close(pidfd);
    return failed;
}

static int take_fork(struct zygote *zygote, const uint8_t *frame, size_t size, struct error *error)
{
    struct zygote_fork fork;
    int fds[FORK_FDS];
    msgpack_zone zone;
    if (!msgpack_zone_init(&zone, 1024))
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a message");
    int failed = envelope_read_message(frame, size, &zygote_fork_type, &zone, &fork, error);
    msgpack_zone_destroy(&zone);
    if (failed)
        return -1;
    if (zygote->n_fds < FORK_FDS)
        return error_set(error, STATUS_MALFORMED, "a zygote_fork with %zu descriptors", zygote->n_fds);
    memcpy(fds, zygote->fds, sizeof fds);
    zygote->n_fds -= FORK_FDS;
    memmove(zygote->fds, zygote->fds + FORK_FDS, zygote->n_fds * sizeof *fds);
    failed = answer_fork(zygote, fork.id, fds, error);
    for (size_t i = 0; i < FORK_FDS; i++)
        close(fds[i]);
    return failed;
}

/* ---- the channel, with descriptors ---- */

static int keep_fds(struct zygote *zygote, struct msghdr *header, struct error *error)
{
    for (struct cmsghdr *part = CMSG_FIRSTHDR(header); part; part = CMSG_NXTHDR(header, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        if (zygote->n_fds + n > WAITING_FDS)
            return error_set(error, STATUS_MALFORMED, "more than %d descriptors wait", WAITING_FDS);
        memcpy(zygote->fds + zygote->n_fds, CMSG_DATA(part), n * sizeof(int));
        zygote->n_fds += n;
    }
    if (header->msg_flags & MSG_CTRUNC)
        return error_set(error, STATUS_MALFORMED, "descriptors were lost");
    return 0;
}

/* 1: more has come; 0: the parent has closed. */
static int receive(struct zygote *zygote, struct error *error)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(WAITING_FDS * sizeof(int))];
    } control;
    size_t room;
    uint8_t *at = frame_reader_room(&zygote->channel->reader, &room);
    if (!at)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a frame");
    struct iovec part = {at, room};
    struct msghdr header = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t n = recvmsg(zygote->channel->fd, &header, MSG_CMSG_CLOEXEC);
    if (n < 0)
        return errno == EINTR ? 1 : error_set_errno(error, STATUS_SYSTEM, errno, "reading from the parent");
    if (keep_fds(zygote, &header, error) < 0)
        return -1;
    frame_reader_filled(&zygote->channel->reader, (size_t)n);
    return n > 0;
}

static int take_frames(struct zygote *zygote, struct error *error)
{
    const uint8_t *frame;
    size_t size;
    int got;
    while ((got = frame_reader_next(&zygote->channel->reader, &frame, &size, error)) > 0)
        if (take_fork(zygote, frame, size, error) < 0)
            return -1;
    return got;
}

/* ---- life ---- */

static void on_child(int signal)
{
    (void)signal; /* it ends ppoll */
}

static int serve(struct zygote *zygote, struct error *error)
{
    sigset_t during;
    sigemptyset(&during); /* children are noticed while it waits, and at no other time */
    for (;;) {
        struct pollfd parent = {.fd = zygote->channel->fd, .events = POLLIN};
        if (reap(zygote, error) < 0)
            return -1;
        int n = ppoll(&parent, 1, NULL, &during);
        if (n < 0 && errno != EINTR)
            return error_set_errno(error, STATUS_SYSTEM, errno, "waiting for the parent");
        if (n <= 0)
            continue;
        int got = receive(zygote, error);
        if (got <= 0)
            return got;
        if (take_frames(zygote, error) < 0)
            return -1;
    }
}

static int read_setup(struct zygote *zygote, struct zygote_setup *ret_setup, struct worker_job *ret_job,
                      msgpack_zone *zone, struct error *error)
{
    const struct {
        const struct message_type *type;
        void *ret;
    } wanted[] = {{&zygote_setup_type, ret_setup}, {&worker_job_type, ret_job}};
    for (size_t i = 0; i < 2; i++) {
        const uint8_t *frame;
        size_t size;
        int got = channel_read(zygote->channel, &frame, &size, error);
        if (got <= 0)
            return got < 0 ? -1 : error_set(error, STATUS_DISCONNECTED, "the parent is gone");
        /* Texts point into the frame, which the next one overwrites. */
        uint8_t *copy = msgpack_zone_malloc(zone, size);
        if (!copy)
            return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a zygote's setup");
        memcpy(copy, frame, size);
        if (envelope_read_message(copy, size, wanted[i].type, zone, wanted[i].ret, error) < 0)
            return -1;
    }
    return 0;
}

static int prepare(struct zygote *zygote, struct error *error)
{
    struct zygote_setup setup;
    struct worker_job job;
    msgpack_zone zone;
    sigset_t children;
    struct sigaction action = {.sa_handler = on_child};
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    sigprocmask(SIG_BLOCK, &children, NULL);
    sigaction(SIGCHLD, &action, NULL);
    zygote->status_file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    if (zygote->status_file < 0)
        return error_set_errno(error, STATUS_SYSTEM, errno, "/proc/self/stat");
    if (!msgpack_zone_init(&zone, MSGPACK_ZONE_CHUNK_SIZE))
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a zygote");
    int failed = pch_open(&zygote->pch, zygote->compiler->folder, error) < 0 || shut_in(zygote, error) < 0 ||
                 read_setup(zygote, &setup, &job, &zone, error) < 0 ||
                 make_and_prove(zygote, setup.prefix, &job, &zone, error) < 0;
    msgpack_zone_destroy(&zone);
    return failed ? -1 : 0;
}

int zygote_run(struct channel *channel, const struct zygote_compiler *compiler)
{
    struct zygote *zygote = calloc(1, sizeof *zygote);
    struct error error;
    if (!zygote)
        return WORKER_EXIT_MEMORY;
    zygote->compiler = compiler;
    zygote->channel = channel;
    int failed = prepare(zygote, &error);
    struct zygote_ready ready = {
        .protocol = WORKER_PROTOCOL,
        .has_protocol = true,
        .identity = text_of(compiler->identity),
        .sandbox = zygote->sandbox,
        .header_bytes = zygote->pch.size,
        .has_header_bytes = true,
        .plain_ns = zygote->plain_ns,
        .has_plain_ns = true,
        .header_ns = zygote->header_ns,
        .has_header_ns = true,
        .unequal = zygote->unequal,
        .error = text_of(failed ? error.text : NULL),
    };
    struct error sending;
    if (channel_write_message(channel, &zygote_ready_type, &ready, &sending) < 0) {
        complain(&sending);
        return WORKER_EXIT_CHANNEL;
    }
    if (failed)
        return WORKER_EXIT_DONE;
    if (serve(zygote, &error) < 0) {
        complain(&error);
        return WORKER_EXIT_CHANNEL;
    }
    return WORKER_EXIT_DONE;
}
