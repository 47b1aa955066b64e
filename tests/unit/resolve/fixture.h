/* What the tests of the resolve step start from: a fusion that passes all checks, and a compiler. */
#ifndef TESTS_UNIT_RESOLVE_FIXTURE_H
#define TESTS_UNIT_RESOLVE_FIXTURE_H

#include "daemon/resolve/resolve.h"

/* A whole request; change what the test is about. Everything in it belongs to it. */
struct request {
    msgpack_zone zone;
    struct fusion fusion;
    struct text entries[4];
    struct compile_options compile;
    struct requirements requires;
    struct param params[4];
    struct output outputs[4];
    struct text sizes[4];
    struct header headers[4];
    uint8_t digests[4][DIGEST_SIZE];
    struct define defines[4];
    struct compiler_facts facts;
    struct resolved resolved;
    struct error error;
};

/* Two kernels' worth of nothing special: code with the preamble, one tensor, one output, sm_90a, NVRTC 13.0. */
void request_init(struct request *request);
void request_finish(struct request *request);

/* Resolve without a sample; 0 or -1 with request->error. */
int request_resolve(struct request *request);
/* Resolve and compute the key; fails the test when the request is refused. */
void request_key(struct request *request, uint8_t ret[KEY_SIZE]);

/* The compiler facts of NVRTC major.minor with the targets it has. */
struct compiler_facts facts_of(unsigned major, unsigned minor);

/* Whether the list has the text. */
bool has_text(const struct text *texts, size_t n, const char *text);

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

#endif
