/* Tests: a client of the daemon that sends exactly the bytes it is told to, and reads frames with a bounded wait. */
#ifndef TESTS_SUPPORT_WIRE_CLIENT_H
#define TESTS_SUPPORT_WIRE_CLIENT_H

#include <msgpack.h>
#include <stdbool.h>

#include "proto/envelope.h"
#include "proto/frame.h"
#include "proto/message.h"

#define WIRE_PATIENCE_MS 60000
/* Descriptors that a test may send or get at a time. */
#define WIRE_FDS 253

struct wire {
    int fd;
    uint32_t last_id;
    struct frame_reader reader;
    msgpack_zone zone; /* of everything that was decoded */
    int fds[16];       /* received and not taken yet */
    size_t n_fds;
};

enum wire_read {
    WIRE_FRAME,
    WIRE_END,     /* the daemon has closed the connection */
    WIRE_SILENCE, /* nothing within the time */
};

/* Connect; the test fails if that does not work. */
void wire_connect(struct wire *ret, const char *socket);
/* Connect and greet. */
void wire_open(struct wire *ret, const char *socket);
/* Connect without failing: 0, or -1 with errno. */
int wire_try_connect(struct wire *ret, const char *socket);
/* Take over the client's end of a direct channel. */
void wire_adopt(struct wire *ret, int fd);
void wire_close(struct wire *wire);

/* Send bytes as they are. false when the daemon does not take them all: it has closed the connection, or, for
 * `patience_ms`, does not read. */
bool wire_send(struct wire *wire, const void *bytes, size_t size, long patience_ms);
/* The same with descriptors on the first byte. */
bool wire_send_with_fds(struct wire *wire, const void *bytes, size_t size, const int *fds, size_t n_fds);
/* A frame around the payload. */
bool wire_send_payload(struct wire *wire, const void *payload, size_t size);
/* A request; its id. */
uint32_t wire_ask(struct wire *wire, enum method method, const void *params);
/* The frame of a request, appended. */
void wire_write(msgpack_sbuffer *out, uint32_t id, enum method method, const void *params);

/* The next response, whatever it answers. Its bytes are good until the next read. */
enum wire_read wire_read(struct wire *wire, long patience_ms, struct envelope *ret);
/* The daemon closes the connection within the time; frames before that are skipped. */
bool wire_ends(struct wire *wire, long patience_ms);

/* What a request came to: 0 and the method's reply in *ret, or the failure's code and, unless NULL, *ret_failure. The
 * next frame must be this answer, or the test fails. What is returned lives until wire_close, image bytes until the
 * next read. */
unsigned wire_answer(struct wire *wire, uint32_t id, enum method method, void *ret, struct failure *ret_failure);
/* Ask and wait. */
unsigned wire_call(struct wire *wire, enum method method, const void *params, void *ret, struct failure *ret_failure);

/* The daemon's numbers, over a connection of its own. */
struct stats_reply wire_stats(const char *socket);

#endif
