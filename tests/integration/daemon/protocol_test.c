/* Peers that break the protocol: each is told what it did, or at least let go, and the daemon serves on. No compiler
 * is needed. */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/integration/daemon/fixture.h"

static struct daemon_process daemon_;
static struct base_line base;
static const struct ping_request nothing;
static const char *const no_compiler[] = {"--nvrtc", "/nonexistent/libnvrtc.so", NULL};

static void setup(void)
{
    daemon_start(&daemon_, &(struct daemon_options){.args = no_compiler});
    cr_assert(daemon_log_waits_for(&daemon_, "compiler.unavailable"));
    base = base_line_take(&daemon_);
}

static void teardown(void)
{
    daemon_finish(&daemon_);
}

/* At the end of every test: whatever was done to it, the daemon answers others, has leaked nothing, and ends in order.
 */
static void daemon_is_well(void)
{
    base_line_check(&base);
    daemon_stop_in_order(&daemon_);
}

TestSuite(protocol, .init = setup, .fini = teardown);

static struct failure read_failure(struct wire *wire, uint32_t id)
{
    struct failure failure = {0};
    cr_assert(wire_answer(wire, id, METHOD_PING, NULL, &failure) != 0, "a success");
    return failure;
}

/* Send a payload; expect this failure with these words, and then the end of the connection or its going on. */
static void refused(struct wire *wire, const void *payload, size_t size, uint32_t id, enum status code,
                    const char *words, bool closes)
{
    cr_assert(wire_send_payload(wire, payload, size));
    struct failure failure = read_failure(wire, id);
    cr_assert(failure.code == (unsigned)code, "%s: %s", failure.name.at, failure.text.at);
    cr_assert(strstr(failure.text.at, words), "\"%s\" is not in \"%s\"", words, failure.text.at);
    if (closes)
        cr_assert(wire_ends(wire, WIRE_PATIENCE_MS));
    else
        cr_assert(wire_call(wire, METHOD_PING, &nothing, NULL, NULL) == 0);
    wire_close(wire);
}

#define REFUSED(wire, payload, id, code, words, closes)                                                                \
    refused(wire, payload, sizeof(payload) - 1, id, STATUS_##code, words, closes)

Test(protocol, B_unknown_method_and_bad_fields)
{
    struct wire wire;
    wire_open(&wire, daemon_.socket);
    REFUSED(&wire, "\x94\x00\x07\xa4pong\x80", 7, UNKNOWN_METHOD, "\"pong\"", false);
    wire_open(&wire, daemon_.socket);
    REFUSED(&wire,
            "\x94\x00\x07\xa6"
            "cancel\x80",
            7, MISSING_FIELD, "request", false);
    wire_open(&wire, daemon_.socket);
    REFUSED(&wire,
            "\x94\x00\x07\xa6"
            "cancel\x81\xa7request\xa1x",
            7, INVALID_FIELD, "request", false);
    wire_open(&wire, daemon_.socket);
    REFUSED(&wire,
            "\x94\x00\x07\xa6"
            "cancel\x82\xa7request\x01\xa7request\x02",
            7, DUPLICATE_FIELD, "request", false);
    wire_open(&wire, daemon_.socket);
    REFUSED(&wire, "\x94\x00\x07\xa4ping\x90", 7, INVALID_FIELD, "map", false);
    wire_open(&wire, daemon_.socket);
    REFUSED(&wire, "\x94\x00\x07\xa5stats\xc0", 7, INVALID_FIELD, "map", false);
    /* Outside of a fusion, what is not known is ignored: a newer client may say more. */
    wire_open(&wire, daemon_.socket);
    cr_assert(wire_send_payload(&wire, "\x94\x00\x07\xa4ping\x81\xa4more\x01", 15));
    cr_assert(wire_answer(&wire, 7, METHOD_PING, NULL, NULL) == 0);
    wire_close(&wire);
    daemon_is_well();
}

Test(protocol, B_greeting)
{
    struct wire wire;
    struct hello_request hello = {
        .protocol_min = 7, .has_protocol_min = true, .protocol_max = 9, .has_protocol_max = true};
    struct failure failure;
    struct hello_reply reply;

    wire_connect(&wire, daemon_.socket);
    REFUSED(&wire, "\x94\x00\x03\xa4ping\x80", 3, NOT_GREETED, "\"ping\"", true);
    wire_connect(&wire, daemon_.socket);
    REFUSED(&wire,
            "\x94\x00\x03\xa4"
            "abcd\x80",
            3, NOT_GREETED, "\"abcd\"", true);

    wire_connect(&wire, daemon_.socket);
    cr_assert(wire_call(&wire, METHOD_HELLO, &hello, NULL, &failure) == STATUS_UNSUPPORTED_VERSION);
    cr_assert(strstr(failure.text.at, "7 to 9") && strstr(failure.text.at, "1 to 1"), "%s", failure.text.at);
    /* It may try again with what the daemon speaks. */
    hello.protocol_min = 1;
    cr_assert(wire_call(&wire, METHOD_HELLO, &hello, &reply, NULL) == 0);
    cr_assert(reply.protocol == 1 && reply.limits->frame_bytes == LIMIT_FRAME && reply.n_degraded > 0);
    cr_assert(wire_call(&wire, METHOD_HELLO, &hello, NULL, &failure) == STATUS_INVALID_FIELD);
    cr_assert(strstr(failure.text.at, "once"), "%s", failure.text.at);
    wire_close(&wire);

    /* More minimum than maximum. */
    wire_connect(&wire, daemon_.socket);
    hello = (struct hello_request){
        .protocol_min = 1, .has_protocol_min = true, .protocol_max = 0, .has_protocol_max = true};
    cr_assert(wire_call(&wire, METHOD_HELLO, &hello, NULL, NULL) == STATUS_UNSUPPORTED_VERSION);
    wire_close(&wire);
    daemon_is_well();
}

static void header_refused(struct wire *wire, const char *header, enum status code, const char *words)
{
    cr_assert(wire_send(wire, header, 4, WIRE_PATIENCE_MS));
    struct failure failure = read_failure(wire, 0);
    cr_assert(failure.code == (unsigned)code && strstr(failure.text.at, words), "%s: %s", failure.name.at,
              failure.text.at);
    cr_assert(wire_ends(wire, WIRE_PATIENCE_MS));
    wire_close(wire);
}

Test(protocol, F12_frames_above_the_limit)
{
    struct wire wire;
    wire_connect(&wire, daemon_.socket);
    header_refused(&wire, "\x00\x00\x10\x01", STATUS_FRAME_TOO_LARGE, "4096");
    wire_connect(&wire, daemon_.socket);
    header_refused(&wire, "\xff\xff\xff\xff", STATUS_FRAME_TOO_LARGE, "4096");
    wire_open(&wire, daemon_.socket);
    header_refused(&wire, "\x01\x00\x00\x01", STATUS_FRAME_TOO_LARGE, "16777216");
    wire_open(&wire, daemon_.socket);
    header_refused(&wire, "\xff\xff\xff\xff", STATUS_FRAME_TOO_LARGE, "16777216");
    wire_open(&wire, daemon_.socket);
    header_refused(&wire, "\x00\x00\x00\x00", STATUS_MALFORMED, "0 bytes");

    /* A frame of exactly the limit is read: it is the content that is wrong. */
    uint8_t *large = calloc(1, LIMIT_FRAME);
    cr_assert(large);
    wire_open(&wire, daemon_.socket);
    refused(&wire, large, LIMIT_FRAME, 0, STATUS_MALFORMED, "", true);
    wire_connect(&wire, daemon_.socket);
    refused(&wire, large, LIMIT_FRAME_GREETING, 0, STATUS_MALFORMED, "", true);
    free(large);
    daemon_is_well();
}

Test(protocol, F11_malformed_frames)
{
    static const struct {
        const char *payload;
        size_t size;
    } frames[] = {
#define FRAME(bytes) {bytes, sizeof(bytes) - 1}
        FRAME("\xc1"),                                                     /* a byte that means nothing */
        FRAME("\xdd\xff\xff\xff\xff"),                                     /* an array of four thousand millions */
        FRAME("\x94\x00\x05\xa4ping\xdf\xff\xff\xff\xff"),                 /* a map of as many */
        FRAME("\x94\x00\x05\xa4ping\xc6\xff\xff\xff\xff"),                 /* bytes that do not come */
        FRAME("\x94\x00\x05\xa4ping"),                                     /* cut */
        FRAME("\x94\x00\x05\xa4ping\x80\x80"),                             /* something behind it */
        FRAME("\x94\x00\x05\xa4ping\x81\x01\x02"),                         /* a key that is no string */
        FRAME("\x94\x00\x05\x06\x80"),                                     /* a method that is no string */
        FRAME("\x94\x00\xcf\xff\xff\xff\xff\xff\xff\xff\xff\xa4ping\x80"), /* an id of 64 bits */
        FRAME("\x94\x01\x05\xc0\x80"),                                     /* a response */
        FRAME("\x93\x02\xa4ping\x80"),                                     /* a notification */
        FRAME("\x94\x03\x05\xa4ping\x80"),                                 /* an unknown kind */
        FRAME("\x80"),
        FRAME("\xc0"),
        FRAME("\xa4ping"),
    };
    char nested[100000];
    for (size_t i = 0; i < sizeof frames / sizeof frames[0]; i++) {
        struct wire wire;
        struct envelope envelope;
        wire_open(&wire, daemon_.socket);
        cr_assert(wire_send_payload(&wire, frames[i].payload, frames[i].size));
        cr_assert(wire_read(&wire, WIRE_PATIENCE_MS, &envelope) == WIRE_FRAME && envelope.error.at, "frame %zu", i);
        cr_assert(wire_ends(&wire, WIRE_PATIENCE_MS), "frame %zu", i);
        wire_close(&wire);
    }
    /* Chained array headers, one value each. */
    struct wire wire;
    memset(nested, 0x91, sizeof nested);
    wire_open(&wire, daemon_.socket);
    refused(&wire, nested, sizeof nested, 0, STATUS_MALFORMED, "", true);
    daemon_is_well();
}

Test(protocol, F13_truncation_at_every_byte)
{
    msgpack_sbuffer out;
    struct sample sample;
    struct kernel_list_request list = {.prefix = TEXT_OF("00"), .limit = 5, .has_limit = true};
    static const struct stats_request stats;
    const struct {
        enum method method;
        const void *params;
    } requests[] = {{METHOD_COMPILE, sample_kernel(&sample, 1)}, {METHOD_KERNEL_LIST, &list}, {METHOD_STATS, &stats}};
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        msgpack_sbuffer_init(&out);
        wire_write(&out, 1, requests[i].method, requests[i].params);
        for (size_t cut = 0; cut < out.size; cut++) {
            struct wire wire;
            wire_open(&wire, daemon_.socket);
            cr_assert(wire_send(&wire, out.data, cut, WIRE_PATIENCE_MS));
            /* Half of them are gone at once, half wait for an end. */
            if (cut % 2) {
                shutdown(wire.fd, SHUT_WR);
                cr_assert(wire_ends(&wire, 1000), "byte %zu of %zu", cut, out.size);
            }
            wire_close(&wire);
        }
        msgpack_sbuffer_destroy(&out);
    }
    daemon_is_well();
}

Test(protocol, F16_descriptors_that_nobody_declares)
{
    static const int counts[] = {1, 4, 16, 17, 253};
    msgpack_sbuffer out;
    int fds[WIRE_FDS];
    struct wire wire;
    struct envelope envelope;
    int fd = some_descriptor();
    for (size_t i = 0; i < WIRE_FDS; i++)
        fds[i] = fd;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        msgpack_sbuffer_init(&out);
        wire_open(&wire, daemon_.socket);
        wire_write(&out, 2, METHOD_PING, &nothing);
        cr_assert(wire_send_with_fds(&wire, out.data, out.size, fds, (size_t)counts[i]));
        enum wire_read got = wire_read(&wire, WIRE_PATIENCE_MS, &envelope);
        if (got == WIRE_FRAME && !envelope.error.at) /* the ping itself was fine */
            got = wire_read(&wire, WIRE_PATIENCE_MS, &envelope);
        cr_assert(got == WIRE_FRAME && envelope.error.at &&
                      memmem(envelope.error.at, envelope.error.size, "UNEXPECTED_FDS", 14),
                  "%d descriptors", counts[i]);
        cr_assert(wire_ends(&wire, WIRE_PATIENCE_MS));
        wire_close(&wire);
        msgpack_sbuffer_destroy(&out);
    }
    close(fd);
    daemon_is_well();
}

Test(protocol, F16_descriptors_that_do_not_come)
{
    struct wire wire;
    struct failure failure;
    struct blob_put_request put = {.fds = 1, .has_fds = true, .size = 1, .has_size = true};
    wire_open(&wire, daemon_.socket);
    cr_assert(wire_call(&wire, METHOD_BLOB_PUT, &put, NULL, &failure) == STATUS_UNEXPECTED_FDS);
    cr_assert(strstr(failure.text.at, "1 declared") && strstr(failure.text.at, "0 came"), "%s", failure.text.at);
    put.fds = 5;
    cr_assert(wire_call(&wire, METHOD_BLOB_PUT, &put, NULL, &failure) == STATUS_INVALID_FIELD);
    cr_assert(strstr(failure.text.at, "fds") && strstr(failure.text.at, "4"), "%s", failure.text.at);
    wire_close(&wire);
    daemon_is_well();
}

Test(protocol, F14_a_frame_that_does_not_end)
{
    struct wire slow, healthy;
    long begin;
    wire_open(&healthy, daemon_.socket);
    wire_open(&slow, daemon_.socket);
    begin = clock_ms();
    cr_assert(wire_send(&slow, "\x00\x00\x00\x20\x94", 5, WIRE_PATIENCE_MS));
    /* More bytes do not buy more time. */
    struct envelope envelope;
    enum wire_read got = wire_read(&slow, 2500, &envelope);
    cr_assert(got == WIRE_SILENCE && wire_send(&slow, "\x00", 1, WIRE_PATIENCE_MS));
    cr_assert(wire_call(&healthy, METHOD_PING, &nothing, NULL, NULL) == 0);
    cr_assert(wire_ends(&slow, 20000));
    long took = clock_ms() - begin;
    cr_assert(took >= 4900 && took < 9000, "%ld ms", took);
    cr_assert(daemon_log_count(&daemon_, "conn.slow_frame") == 1);
    wire_close(&slow);
    wire_close(&healthy);
    daemon_is_well();
}

/* By the clock, or by what would have to be kept for it: whichever comes first. */
static bool one_is_let_go(void *daemon)
{
    return daemon_log_count(daemon, "conn.not_reading") +
               daemon_log_count(daemon, "the peer does not read its replies") ==
           1;
}

Test(protocol, F15_a_client_that_never_reads)
{
    enum { REQUESTS = 100000 };
    struct wire deaf, healthy;
    msgpack_sbuffer one;
    struct stats_reply before = wire_stats(daemon_.socket);
    msgpack_sbuffer_init(&one);
    wire_write(&one, 1, METHOD_STATS, &nothing);
    wire_open(&healthy, daemon_.socket);
    wire_open(&deaf, daemon_.socket);
    char *many = malloc(one.size * REQUESTS);
    cr_assert(many);
    for (size_t i = 0; i < REQUESTS; i++)
        memcpy(many + i * one.size, one.data, one.size);
    /* The daemon stops reading, and after a while lets the client go: the rest cannot be sent. */
    cr_assert(!wire_send(&deaf, many, one.size * REQUESTS, 30000));
    cr_assert(becomes_true(one_is_let_go, &daemon_, WIRE_PATIENCE_MS));
    cr_assert(wire_call(&healthy, METHOD_PING, &nothing, NULL, NULL) == 0);
    struct stats_reply after = wire_stats(daemon_.socket);
    /* The address sanitizer holds on to what was freed. */
    cr_assert(getenv("ASAN_OPTIONS") || after.resident_bytes < before.resident_bytes + (16u << 20), "%llu bytes more",
              (unsigned long long)(after.resident_bytes - before.resident_bytes));
    wire_close(&deaf);
    wire_close(&healthy);
    msgpack_sbuffer_destroy(&one);
    free(many);
    daemon_is_well();
}

static bool never(void *context)
{
    (void)context;
    return false;
}

/* It takes its time, longer than the deadline in all, but takes some: nothing is lost. */
Test(protocol, F15_a_client_that_reads_slowly)
{
    /* All answers together are less than what the daemon keeps for a client that reads nothing. */
    enum { REQUESTS = 1000, GULP = 50 };
    struct wire wire;
    msgpack_sbuffer many;
    struct envelope envelope;
    long begin = clock_ms();
    msgpack_sbuffer_init(&many);
    for (uint32_t i = 0; i < REQUESTS; i++)
        wire_write(&many, i, METHOD_STATS, &nothing);
    wire_open(&wire, daemon_.socket);
    cr_assert(wire_send(&wire, many.data, many.size, WIRE_PATIENCE_MS));
    for (size_t got = 0; got < REQUESTS; got++) {
        if (got % GULP == 0 && clock_ms() - begin < 7000)
            becomes_true(never, NULL, 500); /* this client's own slowness */
        cr_assert(wire_read(&wire, WIRE_PATIENCE_MS, &envelope) == WIRE_FRAME && !envelope.error.at, "answer %zu", got);
    }
    cr_assert(clock_ms() - begin > 7000);
    wire_close(&wire);
    msgpack_sbuffer_destroy(&many);
    daemon_is_well();
}
