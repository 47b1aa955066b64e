#include "tests/unit/daemon/request_bytes.h"

#include <criterion/criterion.h>
#include <string.h>

struct compiler_facts wish_facts(void)
{
    static const int64_t archs[] = {75, 80, 90};
    struct compiler_facts facts = {.major = 13, .minor = 0, .archs = archs, .n_archs = 3};
    digest_of("library 1", 9, facts.build);
    return facts;
}

void wish_pack(const struct wish *wish, msgpack_sbuffer *ret)
{
    struct text entry = TEXT_OF("f");
    struct header headers[2];
    size_t n = 0;
    if (wish->header)
        headers[n++] = (struct header){.name = TEXT_OF("inline.h"),
                                       .bytes = {(const uint8_t *)wish->header, strlen(wish->header)}};
    if (wish->blob) {
        headers[n] = (struct header){.name = TEXT_OF("blob.h"), .has_digest = true};
        memcpy(headers[n++].digest, wish->blob, DIGEST_SIZE);
    }
    struct fusion fusion = {
        .code = text_of(wish->code ? wish->code : "__global__ void f() {}\n"),
        .entries = &entry,
        .n_entries = 1,
        .structured = true,
        .side_effects_only = true,
        .headers = headers,
        .n_headers = n,
        .target = text_of(wish->target ? wish->target : "sm_90"),
        .label = text_of(wish->label),
    };
    struct compile_request request = {.fusion = &fusion, .with_image = true, .cache = wish->cache};
    msgpack_sbuffer_init(ret);
    cr_assert_eq(message_pack(&compile_request_type, &request, ret), 0);
}

struct plan *wish_plan(const struct wish *wish, const struct compiler_facts *facts)
{
    msgpack_sbuffer packed;
    struct plan *plan;
    struct error error;
    wish_pack(wish, &packed);
    int status = plan_create((struct bytes){(const uint8_t *)packed.data, packed.size}, &plan, &error);
    if (status == 0)
        status = plan_settle(plan, facts, &error);
    cr_assert_eq(status, 0, "%s", error.text);
    /* It has its own copy. */
    memset(packed.data, 0xff, packed.size);
    msgpack_sbuffer_destroy(&packed);
    return plan;
}
