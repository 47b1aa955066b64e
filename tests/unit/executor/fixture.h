/*
 * For tests of the executor: the whole process on a fake device, a front that hands out kernels, and clients on their
 * channels, all on the test's loop.
 */
#ifndef TESTS_UNIT_EXECUTOR_FIXTURE_H
#define TESTS_UNIT_EXECUTOR_FIXTURE_H

#include <msgpack.h>

#include "daemon/executor/process.h"
#include "proto/envelope.h"
#include "tests/support/fake_device.h"
#include "tests/unit/daemon/pump.h"

/* For .init and .fini of every suite. The end is that of the executor, in order: what is left over fails the test. */
void executor_start(void);
void executor_finish(void);

extern struct process process;
extern struct fake_device *device;

/* Called around what the front and the clients do on the loop, which is not the executor's doing. */
extern void (*executor_outside)(bool outside);

/* ---- the front ---- */

/* What the front knows. A key is 32 equal bytes. */
struct front_kernel {
    uint8_t key;
    const char *image; /* as fake_device.h says; NULL: there is no such kernel */
    const char *entry; /* lowered name of its one entry */
    enum index_type index_type;
    bool by_fd;
    bool ptx;
};

extern struct front_state {
    struct front_kernel kernels[8];
    bool held;       /* requests wait for front_answer */
    bool duplicated; /* answers are sent twice */
    size_t n_asked;
    size_t deepest; /* the most that were unanswered at a time */
    size_t n_ready, n_status, n_faults;
    struct executor_status status; /* the last one */
    struct executor_fault fault;
    char fault_text[ERROR_TEXT];
    bool ended; /* the executor has closed the channel, or it is broken */
} front;

/* Add a kernel. */
void front_knows(uint8_t key, const char *image, const char *entry, enum index_type index_type);
/* Answer what waits. */
void front_answer(void);
/* Send the executor bytes as they are; close its channel. */
void front_send_bytes(const void *bytes, size_t size);
void front_leave(void);

/* ---- clients ---- */

struct client;

struct client *client_attach(void);
/* Close the channel, as a client that ends or dies. Its memory is freed at the end. */
void client_leave(struct client *client);
/* Whether the executor has closed it. */
bool client_is_closed(const struct client *client);
/* Answers that came and nobody waited for yet. */
size_t client_answers(const struct client *client);
/* Do not read answers. */
void client_stop_reading(struct client *client);

void client_send_bytes(struct client *client, const void *bytes, size_t size);
/* Its id. */
uint32_t client_ask(struct client *client, enum method method, const void *params);
uint32_t client_ask_with_fds(struct client *client, enum method method, const void *params, const int *fds, size_t n);
bool client_is_answered(const struct client *client, uint32_t id);
/* Turn the loop until the answer is there: 0 and the reply in *ret (NULL: not wanted), or the failure's code with its
 * text in client_error(). What the reply points to is good until the test ends. */
unsigned client_answer(struct client *client, uint32_t id, enum method method, void *ret);
unsigned client_call(struct client *client, enum method method, const void *params, void *ret);
const char *client_error(const struct client *client);
/* The next descriptor that came. */
int client_take_fd(struct client *client);

/* ---- in short; the test fails when they do ---- */

uint64_t client_allocate(struct client *client, uint64_t size);
/* The numbers of a float32 buffer. */
uint64_t client_upload(struct client *client, const float *values, size_t n);
uint32_t client_ask_read(struct client *client, uint64_t buffer, uint64_t stream, uint64_t size);
void client_read(struct client *client, uint64_t buffer, void *ret, uint64_t size);
uint64_t client_stream(struct client *client);
unsigned client_synchronize(struct client *client, uint64_t stream);

/* `scale`: out = x * by, for x of rank 1 with int32 indices; key 1. Its fusion's number on this channel. */
uint64_t client_define_scale(struct client *client);
/* The request; returns ret. */
struct fusion_define_request *scale_definition(struct fusion_define_request *ret);
/* A launch of it. out 0: to be allocated. */
struct scale_launch {
    struct launch_request request;
    struct launch_argument arguments[3];
    int64_t size;
    float by;
};
void scale_launch_init(struct scale_launch *ret, uint64_t fusion, uint64_t x, uint64_t out, int64_t n, float by);

/* What kernels run in the tests; each counts. */
extern struct scale_calls {
    size_t n;
    bool trap;
} scale_calls;

#endif
