/* What the tests of devices share: a device opened from a peer, a fusion defined on it, and answers of an executor. */
#ifndef TESTS_UNIT_CLIENT_DEVICE_PEER_H
#define TESTS_UNIT_CLIENT_DEVICE_PEER_H

#include "client/device.h"
#include "tests/unit/client/peer.h"

/* The device that scripts open; fields may be changed by a test before. */
struct device host_device(void);

/* Start the peer and open the device that its script begins with. */
struct fusiond_device *device_start(struct peer *peer, void (*script)(struct peer *peer), void *data);

/* out = x * by: parameters x (tensor), out (output), by (scalar), sized by x. */
struct fusiond_fusion *scale_fusion(void);

/* For scripts: open the host device; answer fusion.define, buffer.allocate, … with these numbers. */
void serve_open(struct peer *peer);
void serve_define(struct peer *peer, uint64_t number);
void serve_allocate(struct peer *peer, uint64_t number);
void serve_stream(struct peer *peer, uint64_t number);
void serve_free(struct peer *peer, uint64_t number);
void serve_synchronize(struct peer *peer);
/* Answer a launch that has not brought a buffer for `out` with one of this number, or with the given one. */
void answer_launch(struct peer *peer, uint32_t id, const struct launch_request *request, uint64_t number);
void peer_refuse(struct peer *peer, uint32_t id, enum status code, const char *text);

#endif
