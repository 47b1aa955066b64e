#include "daemon/base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/base/require.h"
#include "proto/limits.h"

/* What may wait to be sent to a child: one job. */
#define OUT_LIMIT (LIMIT_FRAME_WORKER + LIMIT_FRAME_HEADER)
/* After a child's death its channel and stderr are read to their ends. Should a descendant of it hold them open, they
 * are closed after this long. */
#define GRACE_MS 1000

/* ---- the end ---- */

static void finish_if_done(struct child *child)
{
    if (child->open_handles == 0)
        child->events->on_exit(child, &child->exit);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct child *child = handle->data;
    child->open_handles--;
    finish_if_done(child);
}

static void on_channel_closed(struct channel *channel)
{
    struct child *child = channel->owner;
    child->open_handles--;
    finish_if_done(child);
}

/* The timer is closed last: it bounds the wait for the others. */
static void close_timer_if_last(struct child *child)
{
    if (child->reaped && !child->channel_open && uv_is_closing((uv_handle_t *)&child->complaints) &&
        !uv_is_closing((uv_handle_t *)&child->deadline))
        uv_close((uv_handle_t *)&child->deadline, on_handle_closed);
}

static void close_channel(struct child *child)
{
    if (!child->channel_open)
        return;
    child->channel_open = false;
    channel_close(&child->channel, on_channel_closed);
    close_timer_if_last(child);
}

static void close_complaints(struct child *child)
{
    if (uv_is_closing((uv_handle_t *)&child->complaints))
        return;
    uv_close((uv_handle_t *)&child->complaints, on_handle_closed);
    close_timer_if_last(child);
}

static void on_grace_over(uv_timer_t *timer)
{
    struct child *child = timer->data;
    close_complaints(child);
    close_channel(child);
}

static void note_end(struct child *child, int status, int signal)
{
    child->reaped = true;
    child->exit.status = status;
    child->exit.signal = signal;
    child->exit.killed = child->killed;
    /* What it had sent before it died may still be in the socket; the channel closes at its end of file. */
    uv_update_time(child->deadline.loop);
    uv_timer_start(&child->deadline, on_grace_over, GRACE_MS, 0);
    close_timer_if_last(child);
}

static void on_process_exit(uv_process_t *process, int64_t status, int signal)
{
    struct child *child = process->data;
    uv_close((uv_handle_t *)&child->process, on_handle_closed);
    note_end(child, (int)status, signal);
}

static void kill_process(struct child *child)
{
    if (!child->foster)
        uv_process_kill(&child->process, SIGKILL);
    else if (child->pidfd >= 0)
        syscall(SYS_pidfd_send_signal, child->pidfd, SIGKILL, NULL, 0);
    else
        child->kill_due = true;
}

/* ---- stderr ---- */

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *ret)
{
    static char scrap[1024]; /* what is past the bound is read and dropped, or the child would block */
    struct child *child = handle->data;
    (void)suggested;
    size_t room = sizeof child->text - 1 - child->text_size;
    *ret = room ? uv_buf_init(child->text + child->text_size, (unsigned)room) : uv_buf_init(scrap, sizeof scrap);
}

static void on_complaint(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer)
{
    struct child *child = stream->data;
    if (n > 0 && buffer->base == child->text + child->text_size) {
        for (ssize_t i = 0; i < n; i++) {
            char *c = &buffer->base[i];
            if (((unsigned char)*c < 0x20 && *c != '\n') || *c == 0x7f)
                *c = ' ';
        }
        child->text_size += (size_t)n;
        child->text[child->text_size] = '\0';
    }
    if (n < 0)
        close_complaints(child);
}

/* ---- the channel ---- */

static void on_frame(struct channel *channel, const uint8_t *frame, size_t size)
{
    struct child *child = channel->owner;
    child->events->on_frame(child, frame, size);
}

/* A child that closes its channel or breaks the protocol has nothing more to say, and one that was not let go has no
 * reason to. */
static void on_end(struct channel *channel, const struct error *reason)
{
    struct child *child = channel->owner;
    /* That the connection went with it says nothing. */
    if (reason->code != STATUS_OK && reason->code != STATUS_DISCONNECTED && child->text_size == 0)
        child->text_size = (size_t)snprintf(child->text, sizeof child->text, "%s", reason->text);
    if (!child->reaped && !(child->released && reason->code == STATUS_OK))
        kill_process(child);
    close_channel(child);
}

static const struct channel_events channel_events = {on_frame, NULL, on_end};

/* ---- the start ---- */

static int spawn(struct child *child, uv_loop_t *loop, const char *path, char **argv, int remote_fd)
{
    static char *no_environment[] = {NULL};
    uv_stdio_container_t stdio[4] = {
        {.flags = UV_IGNORE},
        {.flags = UV_IGNORE},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&child->complaints},
        {.flags = UV_INHERIT_FD, .data.fd = remote_fd},
    };
    uv_process_options_t options = {
        .file = path,
        .args = argv,
        .env = no_environment,
        .cwd = "/",
        .stdio = stdio,
        .stdio_count = 4,
        .exit_cb = on_process_exit,
    };
    return uv_spawn(loop, &child->process, &options);
}

/* Everything but the process. Returns the other end of the channel. */
static int open_channel(struct child *child, uv_loop_t *loop, size_t in_limit, const char *what, struct error *error)
{
    int pair[2];
    child->exit.complaint = child->text;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return error_set_errno(error, STATUS_SYSTEM, errno, "making a socket pair for %s", what);
    if (channel_start(&child->channel, loop, pair[0], in_limit, OUT_LIMIT, &channel_events, child, error) < 0) {
        close(pair[0]);
        close(pair[1]);
        return -1;
    }
    child->channel_open = true;
    uv_pipe_init(loop, &child->complaints, 0);
    uv_timer_init(loop, &child->deadline);
    child->process.data = child->complaints.data = child->deadline.data = child;
    child->open_handles = 3;
    return pair[1];
}

int child_start(struct child *child, uv_loop_t *loop, const char *path, char **argv, size_t in_limit,
                const struct child_events *events, void *owner, struct error *error)
{
    *child = (struct child){.events = events, .owner = owner, .pidfd = -1};
    int remote = open_channel(child, loop, in_limit, path, error);
    if (remote < 0)
        return -1;
    child->open_handles++; /* the process */
    int status = spawn(child, loop, path, argv, remote);
    close(remote);
    if (status < 0) {
        /* There is no process to report on, but the handles still need their close callbacks: the exit is reported
         * like any other, from the loop, so that the owner has one path for both. */
        child->text_size = (size_t)snprintf(child->text, sizeof child->text, "%s: %s", path, uv_strerror(status));
        child->exit.status = 127;
        child->reaped = true;
        uv_close((uv_handle_t *)&child->process, on_handle_closed);
        close_complaints(child);
        close_channel(child);
        return 0;
    }
    uv_read_start((uv_stream_t *)&child->complaints, on_room, on_complaint);
    return 0;
}

int child_expect(struct child *child, uv_loop_t *loop, size_t in_limit, const struct child_events *events, void *owner,
                 int ret_remote[2], struct error *error)
{
    int complaints[2];
    *child = (struct child){.events = events, .owner = owner, .foster = true, .pidfd = -1};
    if (pipe2(complaints, O_CLOEXEC) < 0)
        return error_set_errno(error, STATUS_SYSTEM, errno, "making a pipe for a forked process");
    int remote = open_channel(child, loop, in_limit, "a forked process", error);
    if (remote < 0) {
        close(complaints[0]);
        close(complaints[1]);
        return -1;
    }
    /* A fresh pipe is one that libuv takes. */
    require(uv_pipe_open(&child->complaints, complaints[0]) == 0);
    uv_read_start((uv_stream_t *)&child->complaints, on_room, on_complaint);
    ret_remote[0] = remote;
    ret_remote[1] = complaints[1];
    return 0;
}

void child_found(struct child *child, pid_t pid, int pidfd)
{
    require(child->foster && child->pidfd < 0 && !child->reaped);
    child->process.pid = pid;
    child->pidfd = pidfd;
    if (child->kill_due)
        kill_process(child);
}

void child_ended(struct child *child, int status, int signal, const char *why)
{
    require(child->foster && !child->reaped);
    if (child->pidfd >= 0)
        close(child->pidfd);
    child->pidfd = -1;
    if (why && child->text_size == 0)
        child->text_size = (size_t)snprintf(child->text, sizeof child->text, "%s", why);
    note_end(child, status, signal);
}

void child_send(struct child *child, const char *bytes, size_t size, const int *fds, size_t n_fds)
{
    if (child->channel_open)
        channel_send(&child->channel, bytes, size, fds, n_fds);
}

bool child_hears(const struct child *child)
{
    return child->channel_open && !child->killed && !child->released;
}

void child_forget_complaint(struct child *child)
{
    child->text_size = 0;
    child->text[0] = '\0';
}

static void on_timer(uv_timer_t *timer)
{
    struct child *child = timer->data;
    child->on_deadline(child);
}

void child_arm(struct child *child, uint64_t ms, void (*on_deadline)(struct child *child))
{
    if (child->reaped)
        return;
    child->on_deadline = on_deadline;
    /* Timers count from the loop's idea of now, which may be old after a long callback. */
    uv_update_time(child->deadline.loop);
    /* The loop cuts its time to whole milliseconds, so a timer may be up to one early; a deadline must not be. */
    uv_timer_start(&child->deadline, on_timer, ms + 1, 0);
}

void child_disarm(struct child *child)
{
    if (!child->reaped)
        uv_timer_stop(&child->deadline);
}

void child_kill(struct child *child)
{
    if (child->reaped)
        return;
    child->killed = true;
    kill_process(child);
}

void child_release(struct child *child, uint64_t ms)
{
    if (child->reaped)
        return;
    child->released = true;
    if (child->channel_open)
        channel_finish_sending(&child->channel);
    child_arm(child, ms, child_kill);
}

void child_describe_exit(const struct child_exit *exit, char *ret, size_t room)
{
    int used;
    if (exit->signal)
        used = snprintf(ret, room, "killed by SIG%s", sigabbrev_np(exit->signal) ? sigabbrev_np(exit->signal) : "?");
    else
        used = snprintf(ret, room, "exit status %d", exit->status);
    size_t line = strcspn(exit->complaint, "\n");
    if (line && (size_t)used < room)
        snprintf(ret + used, room - (size_t)used, ": %.*s", (int)line, exit->complaint);
}
