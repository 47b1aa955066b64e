/* For tests of compiles: packed compile requests, and a compiler to resolve them for. */
#ifndef TESTS_UNIT_DAEMON_REQUEST_BYTES_H
#define TESTS_UNIT_DAEMON_REQUEST_BYTES_H

#include "daemon/compile/plan.h"

/* What a request is made from; zeroed: a kernel `f` for sm_90. */
struct wish {
    const char *code;
    const char *label;
    const char *target;
    const uint8_t *blob; /* the digest of a header "blob.h" */
    enum cache_mode cache;
    const char *header; /* the text of a header "inline.h" */
};

/* The facts of the fake compiler's first library. */
struct compiler_facts wish_facts(void);

/* The packed request; the caller destroys the buffer. */
void wish_pack(const struct wish *wish, msgpack_sbuffer *ret);

/* Its plan; the test fails when it is refused. */
struct plan *wish_plan(const struct wish *wish, const struct compiler_facts *facts);

#endif
