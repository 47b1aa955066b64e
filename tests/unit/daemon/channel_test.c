#include "daemon/base/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/daemon/pump.h"

/* ---- one channel, and the other end of its socket ---- */

static struct channel channel;
static int peer;
static bool started;
static int n_frames, n_batches, n_ends, n_closed;
static char frames[64][64];
static struct error ended_by;
static struct channel_events events;
static void (*on_each_frame)(const uint8_t *frame, size_t size);

static void on_frame(struct channel *from, const uint8_t *frame, size_t size)
{
    cr_assert_eq(from, &channel);
    cr_assert_eq(n_ends, 0, "a frame after the end");
    if (size < sizeof frames[0] && n_frames < 64) {
        memcpy(frames[n_frames], frame, size);
        frames[n_frames][size] = '\0';
    }
    n_frames++;
    if (on_each_frame)
        on_each_frame(frame, size);
}

static void on_batch(struct channel *from)
{
    cr_assert_eq(from, &channel);
    n_batches++;
}

static void on_end(struct channel *from, const struct error *reason)
{
    cr_assert_eq(from, &channel);
    n_ends++;
    ended_by = *reason;
}

static void on_closed(struct channel *which)
{
    cr_assert_eq(which, &channel);
    n_closed++;
}

static void start_with(size_t in_limit, size_t out_limit)
{
    int pair[2];
    struct error error;
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    events = (struct channel_events){on_frame, on_batch, on_end};
    cr_assert_eq(channel_start(&channel, loop, pair[0], in_limit, out_limit, &events, NULL, &error), 0);
    peer = pair[1];
    started = true;
    fcntl(peer, F_SETFL, O_NONBLOCK);
}

static void setup(void)
{
    pump_start();
    peer = -1;
}

static void teardown(void)
{
    if (started) {
        channel_close(&channel, on_closed);
        cr_assert_eq(n_closed, 0, "the close callback comes later");
        channel_close(&channel, on_closed);
        pump_until(n_closed == 1);
        pump_settle();
        cr_assert_eq(n_closed, 1);
    }
    if (peer >= 0)
        close(peer);
    pump_finish();
}

static size_t frame_of(const char *text, char *ret)
{
    size_t size = strlen(text);
    frame_header((uint8_t *)ret, size);
    memcpy(ret + 4, text, size);
    return size + 4;
}

static void peer_write(const void *bytes, size_t size)
{
    cr_assert_eq(write(peer, bytes, size), (ssize_t)size);
}

static void peer_send_fds(const char *bytes, size_t size, const int *fds, size_t n)
{
    char control[CMSG_SPACE(sizeof(int) * 64)] = {0};
    struct iovec part = {(void *)bytes, size};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = CMSG_SPACE(sizeof(int) * n)};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * n);
    memcpy(CMSG_DATA(header), fds, sizeof(int) * n);
    cr_assert_eq(sendmsg(peer, &message, 0), (ssize_t)size);
}

/* One recvmsg; returns the size, and the descriptors that came with it. */
static ssize_t peer_receive(char *ret, size_t room, int *ret_fds, size_t *ret_n_fds)
{
    char control[CMSG_SPACE(sizeof(int) * 64)];
    struct iovec part = {ret, room};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t n = recvmsg(peer, &message, MSG_CMSG_CLOEXEC);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *ret_n_fds = n >= 0 && header ? (header->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;
    if (*ret_n_fds)
        memcpy(ret_fds, CMSG_DATA(header), *ret_n_fds * sizeof(int));
    return n;
}

static void send_text(const char *text)
{
    char frame[128];
    channel_send(&channel, frame, frame_of(text, frame), NULL, 0);
}

static int pipe_end(void)
{
    int ends[2];
    cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
    close(ends[1]);
    return ends[0];
}

static ino_t inode_of(int fd)
{
    struct stat status;
    cr_assert_eq(fstat(fd, &status), 0);
    return status.st_ino;
}

TestSuite(channel, .init = setup, .fini = teardown, .timeout = 60);

/* ---- receiving ---- */

Test(channel, frames_split_at_every_byte)
{
    char bytes[64];
    size_t size = frame_of("first", bytes);
    size += frame_of("second", bytes + size);
    start_with(1024, 1024);
    for (size_t cut = 1; cut < size; cut++) {
        n_frames = n_batches = 0;
        peer_write(bytes, cut);
        pump_until(n_batches == 1);
        cr_assert_eq(n_frames, cut < 9 ? 0 : 1, "cut at %zu", cut);
        cr_assert_eq(channel_has_partial_frame(&channel), cut != 9, "cut at %zu", cut);
        peer_write(bytes + cut, size - cut);
        pump_until(n_frames == 2);
        cr_assert_str_eq(frames[0], "first");
        cr_assert_str_eq(frames[1], "second");
        cr_assert_not(channel_has_partial_frame(&channel));
    }
}

Test(channel, F12_a_frame_above_the_limit_ends_it)
{
    start_with(16, 1024);
    peer_write("\0\0\0\x11", 4);
    pump_until(n_ends == 1);
    cr_assert_eq(ended_by.code, STATUS_FRAME_TOO_LARGE);
    cr_assert_eq(n_frames, 0);
}

Test(channel, frames_before_a_broken_one_are_delivered_and_answered)
{
    char bytes[64], got[64];
    size_t size = frame_of("good", bytes);
    memset(bytes + size, 0, 4);
    start_with(1024, 1024);
    peer_write(bytes, size + 4);
    pump_until(n_ends == 1);
    cr_assert_eq(ended_by.code, STATUS_MALFORMED);
    cr_assert_eq(n_frames, 1);
    /* The owner may still say why. */
    send_text("why");
    cr_assert_eq(read(peer, got, sizeof got), 7);
}

Test(channel, F13_the_peer_closing_is_an_end_without_an_error)
{
    char bytes[64];
    size_t size = frame_of("last", bytes);
    start_with(1024, 1024);
    peer_write(bytes, size);
    peer_write(bytes, size - 1);
    close(peer);
    peer = -1;
    pump_until(n_ends == 1);
    cr_assert_eq(ended_by.code, STATUS_OK);
    cr_assert_eq(n_frames, 1);
    pump_settle();
    cr_assert_eq(n_ends, 1);
}

Test(channel, F13_what_a_peer_sent_before_it_vanished_is_delivered)
{
    char bytes[64];
    start_with(1024, 1024);
    /* Closing with something unread resets the socket instead of ending it. */
    send_text("never read");
    peer_write(bytes, frame_of("last words", bytes));
    close(peer);
    peer = -1;
    pump_until(n_ends == 1);
    cr_assert_eq(n_frames, 1);
    cr_assert_str_eq(frames[0], "last words");
    cr_assert_eq(ended_by.code, STATUS_DISCONNECTED);
}

static void close_at_once(const uint8_t *frame, size_t size)
{
    channel_close(&channel, on_closed);
    cr_assert(size == 5 && memcmp(frame, "first", 5) == 0, "the frame is good until the function returns");
}

Test(channel, closing_from_within_on_frame)
{
    char bytes[64];
    size_t size = frame_of("first", bytes);
    size += frame_of("second", bytes + size);
    start_with(1024, 1024);
    on_each_frame = close_at_once;
    peer_write(bytes, size);
    pump_until(n_closed == 1);
    cr_assert_eq(n_frames, 1, "nothing follows the close");
    cr_assert_eq(n_batches, 0);
    cr_assert_eq(n_ends, 0);
    started = false;
}

/* ---- pausing ---- */

static void pause_after_two(const uint8_t *frame, size_t size)
{
    (void)frame, (void)size;
    if (n_frames == 2)
        channel_pause(&channel);
}

static void write_numbered(int from, int to)
{
    char bytes[64], text[8];
    for (int i = from; i <= to; i++) {
        snprintf(text, sizeof text, "%d", i);
        peer_write(bytes, frame_of(text, bytes));
    }
}

Test(channel, a_paused_one_hands_out_nothing_and_loses_nothing)
{
    start_with(1024, 1024);
    on_each_frame = pause_after_two;
    write_numbered(1, 4);
    pump_until(n_frames == 2);
    write_numbered(5, 6);
    pump_settle();
    cr_assert_eq(n_frames, 2);
    /* What goes out still does. */
    char got[64];
    send_text("yes");
    cr_assert_eq(read(peer, got, sizeof got), 7);
    channel_resume(&channel);
    pump_until(n_frames == 6);
    for (int i = 0; i < 6; i++)
        cr_assert_eq(frames[i][0], '1' + i);
}

static void pause_after_each(const uint8_t *frame, size_t size)
{
    (void)frame, (void)size;
    channel_pause(&channel);
}

Test(channel, a_pause_from_within_a_resume_holds)
{
    start_with(1024, 1024);
    on_each_frame = pause_after_each;
    write_numbered(1, 5);
    pump_until(n_frames == 1);
    for (int i = 2; i <= 5; i++) {
        pump_settle();
        cr_assert_eq(n_frames, i - 1);
        channel_resume(&channel);
        pump_until(n_frames == i);
        cr_assert_eq(frames[i - 1][0], '0' + i);
    }
}

Test(channel, descriptors_of_frames_that_wait_are_no_surplus)
{
    char bytes[64];
    int sent = pipe_end(), got;
    start_with(1024, 1024);
    on_each_frame = pause_after_each;
    write_numbered(1, 1);
    pump_until(n_frames == 1);
    size_t size = frame_of("2", bytes);
    peer_send_fds(bytes, size, &sent, 1);
    pump_settle();
    on_each_frame = NULL;
    cr_assert_eq(n_ends, 0);
    channel_pause(&channel);
    channel_resume(&channel);
    pump_until(n_frames == 2 && n_ends == 1); /* nobody has claimed it, and no frame waits any more */
    cr_assert_eq(ended_by.code, STATUS_UNEXPECTED_FDS);
    cr_assert(channel_take_fds(&channel, 1, &got));
    close(got);
    close(sent);
}

Test(channel, F17_a_paused_one_notices_that_the_peer_is_gone)
{
    start_with(1024, 1024);
    on_each_frame = pause_after_each;
    write_numbered(1, 3);
    pump_until(n_frames == 1);
    close(peer);
    peer = -1;
    pump_until(n_ends == 1);
    cr_assert_eq(ended_by.code, STATUS_OK);
    cr_assert_eq(n_frames, 1);
    channel_resume(&channel);
    pump_settle();
    cr_assert_eq(n_frames, 1, "a frame after the end");
}

/* ---- descriptors in ---- */

static int taken[CHANNEL_FDS];
static size_t n_taken;

static void take_one(const uint8_t *frame, size_t size)
{
    (void)frame, (void)size;
    cr_assert(channel_take_fds(&channel, 1, &taken[n_taken]));
    n_taken++;
}

Test(channel, descriptors_come_in_order)
{
    int fds[3];
    char bytes[64];
    size_t size = frame_of("a", bytes);
    size += frame_of("b", bytes + size);
    size += frame_of("c", bytes + size);
    for (int i = 0; i < 3; i++)
        fds[i] = pipe_end();
    start_with(1024, 1024);
    on_each_frame = take_one;
    peer_send_fds(bytes, size, fds, 3);
    pump_until(n_frames == 3);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(inode_of(taken[i]), inode_of(fds[i]));
        cr_assert(fcntl(taken[i], F_GETFD) & FD_CLOEXEC);
        close(taken[i]);
        close(fds[i]);
    }
    cr_assert_not(channel_take_fds(&channel, 1, taken), "there are no more");
    pump_settle();
    cr_assert_eq(n_ends, 0);
}

Test(channel, F16_descriptors_that_no_message_claims_end_it)
{
    char bytes[64];
    int fd = pipe_end();
    size_t size = frame_of("a", bytes);
    start_with(1024, 1024);
    peer_send_fds(bytes, size, &fd, 1);
    close(fd);
    pump_until(n_ends == 1);
    cr_assert_eq(ended_by.code, STATUS_UNEXPECTED_FDS);
    cr_assert_eq(n_frames, 1);
}

Test(channel, F16_more_descriptors_than_may_wait_end_it)
{
    char bytes[64];
    int fds[CHANNEL_FDS + 1];
    size_t size = frame_of("a", bytes);
    for (size_t i = 0; i < CHANNEL_FDS + 1; i++)
        fds[i] = pipe_end();
    start_with(1024, 1024);
    /* In two messages, neither of which is above the limit. */
    peer_send_fds(bytes, 1, fds, CHANNEL_FDS);
    pump_until(n_batches == 1);
    peer_send_fds(bytes + 1, size - 1, fds + CHANNEL_FDS, 1);
    pump_until(n_ends == 1);
    cr_assert_eq(ended_by.code, STATUS_UNEXPECTED_FDS);
    for (size_t i = 0; i < CHANNEL_FDS + 1; i++)
        close(fds[i]);
}

Test(channel, F16_a_truncated_message_of_descriptors_ends_it)
{
    char bytes[64];
    int fds[40];
    size_t size = frame_of("a", bytes);
    for (size_t i = 0; i < 40; i++)
        fds[i] = pipe_end();
    start_with(1024, 1024);
    peer_send_fds(bytes, size, fds, 40);
    pump_until(n_ends == 1);
    cr_assert_eq(ended_by.code, STATUS_UNEXPECTED_FDS);
    for (size_t i = 0; i < 40; i++)
        close(fds[i]);
}

/* ---- sending ---- */

static void answer(const uint8_t *frame, size_t size)
{
    char text[64];
    memcpy(text, frame, size);
    text[size] = '\0';
    send_text(text);
}

Test(channel, P_replies_of_one_batch_leave_in_one_write)
{
    char bytes[256], got[256];
    size_t size = 0;
    for (int i = 0; i < 10; i++)
        size += frame_of("twelve bytes", bytes + size);
    start_with(1024, 1024);
    on_each_frame = answer;
    peer_write(bytes, size);
    pump_until(n_batches == 1);
    cr_assert_eq(n_frames, 10);
    /* A datagram-like look: all of it is there, and the channel holds nothing. */
    cr_assert_eq(read(peer, got, sizeof got), (ssize_t)size);
    cr_assert_eq(memcmp(got, bytes, size), 0);
    cr_assert_eq(channel.out_bytes, 0);
}

static int sent_fds[2];

static void answer_with_fds(const uint8_t *frame, size_t size)
{
    char text[64], out[128];
    memcpy(text, frame, size);
    text[size] = '\0';
    if (size == 1 && (text[0] == '1' || text[0] == '2'))
        channel_send(&channel, out, frame_of(text, out), &sent_fds[text[0] - '1'], 1);
    else
        send_text(text);
}

Test(channel, descriptors_leave_with_their_frames)
{
    static const char *const order[] = {"a", "1", "b", "2", "c"};
    char bytes[128], got[128];
    size_t size = 0, at = 0, seen = 0;
    for (int i = 0; i < 5; i++)
        size += frame_of(order[i], bytes + size);
    sent_fds[0] = pipe_end();
    sent_fds[1] = pipe_end();
    start_with(1024, 1024);
    on_each_frame = answer_with_fds;
    peer_write(bytes, size);
    pump_until(n_batches == 1);
    while (at < size) {
        int fds[4];
        size_t n_fds;
        ssize_t n = peer_receive(got + at, size - at, fds, &n_fds);
        cr_assert_gt(n, 0);
        cr_assert_leq(n_fds, 1);
        if (n_fds) {
            /* It arrives with the frame it belongs to; frames are 5 bytes. */
            size_t frame = seen == 0 ? 1 : 3;
            cr_assert(at <= 5 * frame && 5 * frame < at + (size_t)n, "with bytes %zu to %zu", at, at + (size_t)n);
            cr_assert_eq(inode_of(fds[0]), inode_of(sent_fds[seen++]));
            close(fds[0]);
        }
        at += (size_t)n;
    }
    cr_assert_eq(memcmp(got, bytes, size), 0, "the order is kept");
    cr_assert_eq(seen, 2);
    close(sent_fds[0]);
    close(sent_fds[1]);
}

/* Send until the socket takes no more and something waits. */
static size_t fill_socket(void)
{
    char frame[1024] = {0};
    size_t sent = 0;
    frame_header((uint8_t *)frame, sizeof frame - 4);
    while (channel.out_bytes == 0) {
        channel_send(&channel, frame, sizeof frame, NULL, 0);
        sent += sizeof frame;
    }
    return sent;
}

static size_t drain_peer(void)
{
    static char scrap[65536];
    size_t got = 0;
    ssize_t n;
    while ((n = read(peer, scrap, sizeof scrap)) > 0)
        got += (size_t)n;
    return got;
}

Test(channel, F15_a_peer_that_does_not_read_is_given_up)
{
    start_with(1024, 8192);
    fill_socket();
    char frame[1024] = {0};
    frame_header((uint8_t *)frame, sizeof frame - 4);
    for (int i = 0; i < 20; i++)
        channel_send(&channel, frame, sizeof frame, NULL, 0);
    cr_assert_eq(n_ends, 0, "never from within channel_send");
    cr_assert_leq(channel.out_bytes, 8192);
    pump_until(n_ends == 1);
    cr_assert_eq(ended_by.code, STATUS_BUSY);
    pump_settle();
    cr_assert_eq(n_ends, 1);
}

static size_t answers_per_frame;

static void answer_much(const uint8_t *frame, size_t size)
{
    (void)frame, (void)size;
    char out[1024] = {0};
    frame_header((uint8_t *)out, sizeof out - 4);
    for (size_t i = 0; i < answers_per_frame; i++)
        channel_send(&channel, out, sizeof out, NULL, 0);
}

Test(channel, F15_an_answer_above_the_cap_is_given_up_with_the_reason)
{
    char bytes[64];
    size_t size = frame_of("abcd", bytes);
    start_with(1u << 20, 8192);
    on_each_frame = answer_much;
    answers_per_frame = 9;
    peer_write(bytes, size);
    pump_until(n_ends == 1);
    cr_assert_eq(ended_by.code, STATUS_BUSY, "%d %s", ended_by.code, ended_by.text);
}

Test(channel, F15_requests_that_came_together_wait_for_a_peer_that_reads_slowly)
{
    static char bytes[16384];
    size_t size = 0, got = 0;
    /* A read that fills the buffer to its last byte is followed by another one. */
    while (size + 8 <= sizeof bytes)
        size += frame_of("abcd", bytes + size);
    int n = (int)(size / 8);
    start_with(1u << 20, 8192);
    on_each_frame = answer_much;
    answers_per_frame = 1;
    peer_write(bytes, size);
    pump_until(channel_is_held(&channel));
    pump_settle();
    cr_assert_lt(n_frames, n);
    cr_assert_leq(channel.out_bytes, 8192 / 4 + 1024);
    while (got < (size_t)n * 1024) {
        got += drain_peer();
        pump_settle();
        cr_assert_leq(channel.out_bytes, 8192 / 4 + 1024);
    }
    cr_assert_eq(n_frames, n);
    cr_assert_eq(n_ends, 0);
}

Test(channel, F15_a_peer_that_does_not_read_is_not_read_from)
{
    char bytes[64];
    size_t size = frame_of("more", bytes);
    start_with(1024, 4096);
    size_t sent = fill_socket();
    char frame[1024] = {0};
    frame_header((uint8_t *)frame, sizeof frame - 4);
    channel_send(&channel, frame, sizeof frame, NULL, 0);
    sent += sizeof frame;
    cr_assert_gt(channel.out_bytes, 1024);
    peer_write(bytes, size);
    pump_settle();
    cr_assert_eq(n_frames, 0);
    /* And is read from again once it reads. */
    size_t got = 0;
    pump_rearm();
    while (got < sent) {
        got += drain_peer();
        if (got < sent)
            cr_assert(pump_turn());
    }
    cr_assert_eq(got, sent);
    pump_until(n_frames == 1);
    cr_assert_eq(n_ends, 0);
}

Test(channel, breaking_it_ends_it_later_and_once)
{
    struct error why;
    start_with(1024, 1024);
    error_set(&why, STATUS_OUT_OF_MEMORY, "as an example");
    channel_break(&channel, &why);
    cr_assert_eq(n_ends, 0);
    error_set(&why, STATUS_INTERNAL, "too late");
    channel_break(&channel, &why);
    send_text("into the void");
    pump_until(n_ends == 1);
    cr_assert_eq(ended_by.code, STATUS_OUT_OF_MEMORY);
    pump_settle();
    cr_assert_eq(n_ends, 1);
}

static void break_it(const uint8_t *frame, size_t size)
{
    struct error why;
    (void)frame, (void)size;
    error_set(&why, STATUS_INTERNAL, "as an example");
    channel_break(&channel, &why);
}

Test(channel, no_frame_follows_a_break)
{
    char bytes[64];
    size_t size = frame_of("first", bytes);
    size += frame_of("second", bytes + size);
    start_with(1024, 1024);
    on_each_frame = break_it;
    peer_write(bytes, size);
    pump_until(n_ends == 1);
    cr_assert_eq(n_frames, 1);
    cr_assert_eq(ended_by.code, STATUS_INTERNAL);
}

Test(channel, sending_to_a_peer_that_is_gone_ends_it)
{
    start_with(1024, 1024);
    close(peer);
    peer = -1;
    send_text("hello?");
    cr_assert_eq(n_ends, 0);
    pump_until(n_ends == 1);
    send_text("hello?");
    cr_assert_eq(ended_by.code, STATUS_DISCONNECTED);
}

Test(channel, closing_offers_pending_output_once_more)
{
    char got[64];
    start_with(1024, 1u << 20);
    size_t sent = fill_socket();
    sent += 4 + 3;
    send_text("bye");
    size_t before = drain_peer();
    channel_close(&channel, on_closed);
    pump_until(n_closed == 1);
    started = false;
    cr_assert_eq(before + drain_peer(), sent);
    cr_assert_eq(read(peer, got, sizeof got), 0, "and then it is closed");
}

Test(channel, closing_with_output_that_nobody_takes)
{
    int fd = pipe_end();
    char frame[64];
    start_with(1024, 1u << 20);
    fill_socket();
    channel_send(&channel, frame, frame_of("with a descriptor", frame), &fd, 1);
    close(fd);
    channel_close(&channel, on_closed);
    send_text("ignored");
    pump_until(n_closed == 1);
    started = false;
}

Test(channel, the_end_of_sending_comes_after_what_waits_and_receiving_goes_on)
{
    static char big[1 << 20], room[1 << 16];
    size_t got = 0;
    ssize_t n;
    start_with(64, 4u << 20);
    channel_send(&channel, big, sizeof big, NULL, 0);
    channel_finish_sending(&channel);
    channel_finish_sending(&channel);
    send_text("too late");
    pump_rearm();
    while ((n = read(peer, room, sizeof room)) != 0) {
        got += n > 0 ? (size_t)n : 0;
        cr_assert(n > 0 || (errno == EAGAIN && pump_turn()));
    }
    cr_assert_eq(got, sizeof big);
    char frame[16];
    peer_write(frame, frame_of("still", frame));
    pump_until(n_frames == 1);
    cr_assert_eq(n_ends, 0);
    close(peer);
    peer = -1;
    pump_until(n_ends == 1);
    cr_assert_eq(ended_by.code, STATUS_OK);
}

Test(channel, a_descriptor_that_is_no_socket_is_refused)
{
    struct error error;
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int regular = memfd_create("regular", MFD_CLOEXEC);
    events = (struct channel_events){on_frame, NULL, on_end};
    cr_assert_eq(channel_start(&channel, loop, regular, 1024, 1024, &events, NULL, &error), -1);
    cr_assert_eq(error.code, STATUS_SYSTEM);
    close(regular);
    close(fd);
}
