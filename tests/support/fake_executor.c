/*
 * Tests: an executor without a device, whose way to behave or fail is had at will. It stands in the file "script"
 * beside the path that the executor was started by, and is read at each start: words, each "<behaviour>" or
 * "<behaviour>=<path>".
 *
 *   no-gpu              the probe tells of the host device alone, and of a problem; else also of two GPUs
 *   one-gpu             the first of the two is gone
 *   nothing             the probe tells of no device at all
 *   probe-error, probe-dies, probe-silent    the probe does
 *   probe-once=FILE     the probe dies unless FILE exists, and creates it
 *   probe-stays         the probe does not end by itself
 *   error               executor_ready says that there is no device
 *   dies-at-start       with a word on stderr
 *   starts-late=FILE    dies at its start until FILE exists
 *   silent              never gets ready
 *   waits=FIFO          for one byte from there before it is ready
 *   wrong-protocol      executor_ready is of another version
 *   garbage-ready       bytes that are no message, instead of executor_ready
 *   other-device        opens another one than it was told
 *   dies-at-attach      abort when it gets a channel
 *   dies-at-attach-once=FILE  unless FILE exists, which it creates
 *   stops-at-attach     SIGSTOP when it gets a channel
 *   lies-at-attach      tells of channels that it never had
 *   asks-at-attach      for a compile
 *   floods-at-attach    asks for more kernels at once than it may
 *   stays               does not end when the front lets it go
 *   stays-lost          does not end after a fault
 *   args=FILE           writes its arguments there, and its environment's size
 *
 * A direct channel answers stream.synchronize; fusion.define asks the front for the kernel and answers with the first
 * byte and size of its image (as registers and shared memory); launch is a fault of that kernel; run ends the process
 * without a word.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/executor/executor.h"
#include "proto/envelope.h"
#include "proto/frame.h"

#define FRONT 3
#define MAX_CHANNELS 64

struct peer {
    int fd;
    struct frame_reader in;
    int fds[16];
    size_t n_fds;
    uint64_t client, pid;
};

static char script[1024];
static char path[512];
static struct peer front = {.fd = FRONT};
static struct peer channels[MAX_CHANNELS];
static size_t n_channels;
static uint64_t attached;
static uint32_t last_id;
static uint8_t last_key[DIGEST_SIZE];

/* ---- the script ---- */

static void read_script(const char *program)
{
    const char *slash = strrchr(program, '/');
    snprintf(path, sizeof path, "%.*s/script", (int)(slash ? slash - program : 1), slash ? program : ".");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, script + 1, sizeof script - 3);
    script[0] = ' ';
    strcpy(script + 1 + (n > 0 ? n : 0), " ");
    for (char *c = script; *c; c++)
        if (*c == '\n')
            *c = ' ';
    if (fd >= 0)
        close(fd);
}

/* Whether the behaviour is asked for; its path is then in `path`. */
static bool does(const char *behaviour)
{
    char word[64];
    snprintf(word, sizeof word, " %s ", behaviour);
    if (strstr(script, word))
        return true;
    snprintf(word, sizeof word, " %s=", behaviour);
    const char *at = strstr(script, word);
    if (!at)
        return false;
    at += strlen(word);
    snprintf(path, sizeof path, "%.*s", (int)strcspn(at, " "), at);
    return true;
}

/* Whether the file was there; it is from now on. */
static bool seen(void)
{
    int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    return fd < 0;
}

static _Noreturn void stay(void)
{
    for (;;)
        pause();
}

/* ---- frames ---- */

static void send_frame(int fd, const msgpack_sbuffer *frame, const int *fds, size_t n_fds)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int) * 4)];
        struct cmsghdr align;
    } control = {0};
    size_t sent = 0;
    while (sent < frame->size) {
        struct iovec part = {frame->data + sent, frame->size - sent};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
        if (sent == 0 && n_fds) {
            message.msg_control = control.bytes;
            message.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
            struct cmsghdr *header = CMSG_FIRSTHDR(&message);
            *header = (struct cmsghdr){
                .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int) * n_fds)};
            memcpy(CMSG_DATA(header), fds, sizeof(int) * n_fds);
        }
        ssize_t n = sendmsg(fd, &message, MSG_NOSIGNAL);
        if (n <= 0)
            _exit(EXECUTOR_EXIT_CHANNEL);
        sent += (size_t)n;
    }
}

static void tell_front(const struct message_type *type, const void *message)
{
    msgpack_sbuffer out;
    msgpack_sbuffer_init(&out);
    if (envelope_write_message(&out, type, message) < 0)
        _exit(EXECUTOR_EXIT_MEMORY);
    send_frame(FRONT, &out, NULL, 0);
    msgpack_sbuffer_destroy(&out);
}

static void ask_front(enum method method, const void *params)
{
    msgpack_sbuffer out;
    msgpack_sbuffer_init(&out);
    if (envelope_write_request(&out, ++last_id, method, params) < 0)
        _exit(EXECUTOR_EXIT_MEMORY);
    send_frame(FRONT, &out, NULL, 0);
    msgpack_sbuffer_destroy(&out);
}

/* Read what is there. false: the end. */
static bool receive(struct peer *peer)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int) * 16)];
        struct cmsghdr align;
    } control;
    size_t room;
    uint8_t *at = frame_reader_room(&peer->in, &room);
    struct iovec part = {at, room};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    ssize_t n = recvmsg(peer->fd, &message, MSG_CMSG_CLOEXEC);
    if (n <= 0)
        return false;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header) {
        size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(peer->fds + peer->n_fds, CMSG_DATA(header), count * sizeof(int));
        peer->n_fds += count;
    }
    frame_reader_filled(&peer->in, (size_t)n);
    return true;
}

/* ---- the start ---- */

static const char *label = "host";

static struct device device_of(const char *name)
{
    if (strcmp(name, "0") == 0)
        return (struct device){.has_ordinal = true,
                               .name = TEXT_OF("fake GPU"),
                               .uuid = TEXT_OF("GPU-aaaaaaaa-0000-4000-8000-000000000001"),
                               .kind = DEVICE_KIND_CUDA,
                               .pci = TEXT_OF("0000:80:00.0")};
    if (strcmp(name, "1") == 0)
        return (struct device){.ordinal = 1,
                               .has_ordinal = true,
                               .name = TEXT_OF("fake GPU"),
                               .uuid = TEXT_OF("GPU-bbbbbbbb-0000-4000-8000-000000000002"),
                               .kind = DEVICE_KIND_CUDA,
                               .pci = TEXT_OF("0000:1b:00.0")};
    return (struct device){.has_ordinal = true, .name = TEXT_OF("fake CPU"), .kind = DEVICE_KIND_HOST};
}

static void tell_ready(bool probe)
{
    struct device devices[3];
    struct text problem = TEXT_OF("there is no CUDA driver here");
    struct executor_ready ready = {.protocol = EXECUTOR_PROTOCOL, .has_protocol = true, .devices = devices};
    if (!probe) {
        devices[ready.n_devices++] = device_of(does("other-device") ? "1" : label);
        ready.sandbox = strcmp(label, "host") == 0 ? SANDBOX_FULL : sandbox_absent;
    } else if (!does("nothing")) {
        if (!does("no-gpu") && !does("one-gpu"))
            devices[ready.n_devices++] = device_of("0");
        if (!does("no-gpu"))
            devices[ready.n_devices++] = device_of("1");
        devices[ready.n_devices++] = device_of("host");
    }
    if (probe && (does("no-gpu") || does("nothing"))) {
        ready.problems = &problem;
        ready.n_problems = 1;
    }
    if (does("wrong-protocol"))
        ready.protocol++;
    if (does(probe ? "probe-error" : "error"))
        ready.error = TEXT_OF("there is no device here");
    if (does("garbage-ready") && !probe && write(FRONT, "\0\0\0\x04\x93\x02\xc0\xc0", 8) == 8)
        return;
    tell_front(&executor_ready_type, &ready);
    if (ready.error.at)
        _exit(EXECUTOR_EXIT_NO_DEVICE);
}

static void write_args(int argc, char **argv)
{
    FILE *file = fopen(path, "ae");
    for (int i = 1; file && i < argc; i++)
        fprintf(file, "%s%s", i > 1 ? " " : "", argv[i]);
    size_t n = 0;
    while (environ[n])
        n++;
    if (file) {
        fprintf(file, " environment %zu\n", n);
        fclose(file);
    }
}

static void misbehave_at_start(bool probe)
{
    char byte;
    if (does(probe ? "probe-silent" : "silent"))
        stay();
    bool dies = does(probe ? "probe-dies" : "dies-at-start");
    if (!probe && does("starts-late"))
        dies = access(path, F_OK) != 0;
    if (probe && does("probe-once"))
        dies = !seen();
    if (dies) {
        fputs("no reason given\n", stderr);
        _exit(1);
    }
    if (!probe && does("waits")) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || read(fd, &byte, 1) != 1)
            _exit(9);
        close(fd);
    }
}

/* ---- channels ---- */

static void tell_status(void)
{
    struct executor_status status = {
        .attached = attached, .has_attached = true, .channels = n_channels, .has_channels = true};
    tell_front(&executor_status_type, &status);
}

static void misbehave_at_attach(void)
{
    static const struct compile_request compile;
    static const struct kernel_get_request get = {.has_key = true};
    if (does("dies-at-attach") || (does("dies-at-attach-once") && !seen()))
        abort();
    if (does("stops-at-attach"))
        raise(SIGSTOP);
    if (does("lies-at-attach")) {
        attached += 7;
        tell_status();
    }
    if (does("asks-at-attach"))
        ask_front(METHOD_COMPILE, &compile);
    for (int i = 0; does("floods-at-attach") && i < 2000; i++)
        ask_front(METHOD_KERNEL_GET, &get);
}

static void on_front_frame(const uint8_t *frame, size_t size)
{
    struct executor_attach attach;
    struct error error;
    msgpack_zone *zone = msgpack_zone_new(1024);
    if (envelope_read_message(frame, size, &executor_attach_type, zone, &attach, &error) < 0 || front.n_fds != 1 ||
        n_channels == MAX_CHANNELS)
        _exit(EXECUTOR_EXIT_CHANNEL);
    struct peer *channel = &channels[n_channels++];
    *channel = (struct peer){.fd = front.fds[0], .client = attach.client, .pid = attach.pid};
    front.n_fds = 0;
    frame_reader_init(&channel->in, LIMIT_FRAME);
    attached++;
    msgpack_zone_free(zone);
    misbehave_at_attach();
    tell_status();
}

/* The answer to the last request; attaches that come before it are taken. The frame is good until the next read. */
static struct envelope await_front(void)
{
    struct error error;
    struct envelope envelope;
    const uint8_t *frame;
    size_t size;
    for (;;) {
        int got = frame_reader_next(&front.in, &frame, &size, &error);
        if (got == 0 && !receive(&front))
            _exit(EXECUTOR_EXIT_DONE);
        if (got <= 0)
            continue;
        if (envelope_read(frame, size, &envelope, &error) == 0 && envelope.kind == ENVELOPE_RESPONSE)
            return envelope;
        on_front_frame(frame, size);
    }
}

static void fail(struct peer *channel, uint32_t id, const struct failure *failure)
{
    msgpack_sbuffer out;
    msgpack_sbuffer_init(&out);
    if (envelope_write_failure(&out, id, failure) == 0)
        send_frame(channel->fd, &out, NULL, 0);
    msgpack_sbuffer_destroy(&out);
}

static void reply(struct peer *channel, uint32_t id, enum method method, const void *result)
{
    msgpack_sbuffer out;
    msgpack_sbuffer_init(&out);
    if (envelope_write_reply(&out, id, method, result) == 0)
        send_frame(channel->fd, &out, NULL, 0);
    msgpack_sbuffer_destroy(&out);
}

/* The first byte of a kernel's image, wherever it is. */
static unsigned first_byte(const struct kernel *kernel)
{
    unsigned byte = 0;
    if (kernel->image.at)
        return kernel->image.at[0];
    if (!kernel->has_image_fd || kernel->image_fd >= front.n_fds)
        _exit(9);
    int fd = front.fds[kernel->image_fd];
    void *at = mmap(NULL, kernel->image_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (at != MAP_FAILED)
        byte = *(const unsigned char *)at;
    munmap(at, kernel->image_size);
    for (size_t i = 0; i < front.n_fds; i++)
        close(front.fds[i]);
    front.n_fds = 0;
    return byte;
}

static void define(struct peer *channel, const struct envelope *envelope, msgpack_zone *zone)
{
    struct fusion_define_request request;
    struct kernel_get_reply got;
    struct failure failure;
    struct error error;
    if (message_parse(&fusion_define_request_type, envelope->body.at, envelope->body.size, zone, &request, &error) < 0)
        _exit(EXECUTOR_EXIT_CHANNEL);
    memcpy(last_key, request.key, DIGEST_SIZE);
    struct kernel_get_request get = {.has_key = true, .with_image = true};
    memcpy(get.key, request.key, DIGEST_SIZE);
    ask_front(METHOD_KERNEL_GET, &get);
    struct envelope answer = await_front();
    if (answer.error.at) {
        if (message_parse(&failure_type, answer.error.at, answer.error.size, zone, &failure, &error) == 0)
            fail(channel, envelope->id, &failure);
        return;
    }
    if (message_parse(&kernel_get_reply_type, answer.body.at, answer.body.size, zone, &got, &error) < 0)
        _exit(EXECUTOR_EXIT_CHANNEL);
    struct fusion_define_reply defined = {
        .fusion = 1,
        .has_fusion = true,
        .registers = first_byte(got.kernel),
        .has_registers = true,
        .static_shared_memory = got.kernel->image_size,
        .has_static_shared_memory = true,
    };
    reply(channel, envelope->id, METHOD_FUSION_DEFINE, &defined);
}

static _Noreturn void fault(const struct peer *channel)
{
    struct executor_fault fault = {
        .client = channel->client,
        .has_client = true,
        .pid = channel->pid,
        .has_pid = channel->pid > 0,
        .has_key = true,
        .text = TEXT_OF("CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered"),
    };
    memcpy(fault.key, last_key, DIGEST_SIZE);
    tell_front(&executor_fault_type, &fault);
    if (does("stays-lost"))
        stay();
    _exit(EXECUTOR_EXIT_LOST);
}

static void on_channel_frame(struct peer *channel, const uint8_t *frame, size_t size)
{
    static const struct stream_synchronize_reply nothing;
    struct envelope envelope;
    struct error error;
    msgpack_zone *zone = msgpack_zone_new(4096);
    if (envelope_read(frame, size, &envelope, &error) < 0)
        _exit(EXECUTOR_EXIT_CHANNEL);
    if (envelope.method == METHOD_LAUNCH)
        fault(channel);
    if (envelope.method == METHOD_RUN)
        _exit(0);
    if (envelope.method == METHOD_FUSION_DEFINE)
        define(channel, &envelope, zone);
    else
        reply(channel, envelope.id, METHOD_STREAM_SYNCHRONIZE, &nothing);
    msgpack_zone_free(zone);
}

static void close_channel(size_t i)
{
    close(channels[i].fd);
    frame_reader_finish(&channels[i].in);
    channels[i] = channels[--n_channels];
    tell_status();
}

/* ---- the loop ---- */

static void serve(void)
{
    struct pollfd wanted[MAX_CHANNELS + 1];
    struct error error;
    const uint8_t *frame;
    size_t size;
    for (;;) {
        while (frame_reader_next(&front.in, &frame, &size, &error) > 0)
            on_front_frame(frame, size);
        size_t n = n_channels;
        wanted[n] = (struct pollfd){.fd = FRONT, .events = POLLIN};
        for (size_t i = 0; i < n; i++)
            wanted[i] = (struct pollfd){.fd = channels[i].fd, .events = POLLIN};
        if (poll(wanted, n + 1, -1) < 0)
            _exit(9);
        /* First, since a channel's request may read from it too. */
        if (wanted[n].revents && !receive(&front)) {
            if (does("stays"))
                stay();
            _exit(EXECUTOR_EXIT_DONE);
        }
        for (size_t i = n; i-- > 0;) {
            if (!wanted[i].revents)
                continue;
            if (!receive(&channels[i])) {
                close_channel(i);
                continue;
            }
            while (frame_reader_next(&channels[i].in, &frame, &size, &error) > 0)
                on_channel_frame(&channels[i], frame, size);
        }
    }
}

int main(int argc, char **argv)
{
    bool probe = false;
    read_script(argv[0]);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--probe") == 0)
            probe = true;
        else if (strcmp(argv[i], "--device") == 0 && i + 1 < argc)
            label = argv[++i];
    }
    if (does("args"))
        write_args(argc, argv);
    misbehave_at_start(probe);
    tell_ready(probe);
    if (probe && does("probe-stays"))
        stay();
    if (probe)
        _exit(0);
    frame_reader_init(&front.in, LIMIT_FRAME_WORKER);
    serve();
}
