#include "tests/unit/resolve/fixture.h"

#include <criterion/criterion.h>
#include <string.h>

static const char code[] = "__global__ void scale(Tensor<float, 1, 1> T0, Tensor<float, 1, 1> T1)\n"
                           "{\n"
                           "    nvfuser_index_t i = ((nvfuser_index_t)blockIdx.x) * blockDim.x + threadIdx.x;\n"
                           "    if (i < T0.logical_size[0])\n"
                           "        T1[i] = 2.0f * T0[i];\n"
                           "}\n";

void request_init(struct request *request)
{
    memset(request, 0, sizeof *request);
    cr_assert(msgpack_zone_init(&request->zone, 8192));
    request->entries[0] = TEXT_OF("scale");
    request->entries[1] = TEXT_OF("scale_back");
    request->params[0] = (struct param){
        .name = TEXT_OF("x"), .kind = PARAM_KIND_TENSOR, .dtype = DTYPE_FLOAT32, .rank = 1, .has_rank = true};
    request->params[1] = (struct param){
        .name = TEXT_OF("out"), .kind = PARAM_KIND_OUTPUT, .dtype = DTYPE_FLOAT32, .rank = 1, .has_rank = true};
    for (size_t i = 0; i < ARRAY_SIZE(request->sizes); i++)
        request->sizes[i] = TEXT_OF("x.size[0]");
    request->outputs[0] = (struct output){.name = TEXT_OF("out"), .sizes = request->sizes, .n_sizes = 1};
    request->headers[0] = (struct header){.name = TEXT_OF("lib/a.h"), .has_digest = true};
    request->headers[1] = (struct header){.name = TEXT_OF("lib/b.h"), .has_digest = true};
    request->defines[0] = (struct define){.name = TEXT_OF("WIDTH"), .value = TEXT_OF("4")};
    request->defines[1] = (struct define){.name = TEXT_OF("FAST")};
    for (size_t i = 0; i < ARRAY_SIZE(request->digests); i++)
        memset(request->digests[i], (int)(i + 1), DIGEST_SIZE);
    request->facts = facts_of(13, 0);
    request->fusion = (struct fusion){
        .code = TEXT_OF(code),
        .entries = request->entries,
        .n_entries = 1,
        .headers = request->headers,
        .target = TEXT_OF("sm_90a"),
        .compile = &request->compile,
        .requires = &request->requires,
        .params = request->params,
        .n_params = 2,
        .outputs = request->outputs,
        .n_outputs = 1,
    };
}

void request_finish(struct request *request)
{
    msgpack_zone_destroy(&request->zone);
}

int request_resolve(struct request *request)
{
    return resolve(&request->fusion, NULL, 0, &request->facts, &request->zone, &request->resolved, &request->error);
}

void request_key(struct request *request, uint8_t ret[KEY_SIZE])
{
    cr_assert_eq(request_resolve(request), 0, "refused: %s", request->error.text);
    resolved_key(&request->fusion, &request->resolved, &request->facts, (const uint8_t(*)[DIGEST_SIZE])request->digests,
                 ret);
}

struct compiler_facts facts_of(unsigned major, unsigned minor)
{
    static const int64_t v11_2[] = {35, 37, 50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86};
    static const int64_t v11_8[] = {35, 37, 50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90};
    static const int64_t v12_0[] = {50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90};
    static const int64_t v12_8[] = {50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90, 100, 101, 120};
    static const int64_t v12_9[] = {50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90, 100, 101, 103, 120, 121};
    static const int64_t v13_0[] = {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};
    static const int64_t v13_5[] = {75, 80, 86, 87, 88, 89, 90, 100, 103, 107, 110, 120, 121};
    static const struct {
        unsigned from;
        const int64_t *archs;
        size_t n;
    } lists[] = {
        {1305, v13_5, ARRAY_SIZE(v13_5)}, {1300, v13_0, ARRAY_SIZE(v13_0)}, {1209, v12_9, ARRAY_SIZE(v12_9)},
        {1208, v12_8, ARRAY_SIZE(v12_8)}, {1200, v12_0, ARRAY_SIZE(v12_0)}, {1108, v11_8, ARRAY_SIZE(v11_8)},
        {0, v11_2, ARRAY_SIZE(v11_2)},
    };
    struct compiler_facts facts = {.major = major, .minor = minor, .build = {1, 2, 3}};
    for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
        if (major * 100 + minor < lists[i].from)
            continue;
        facts.archs = lists[i].archs;
        facts.n_archs = lists[i].n;
        break;
    }
    return facts;
}

bool has_text(const struct text *texts, size_t n, const char *text)
{
    for (size_t i = 0; i < n; i++)
        if (text_is(texts[i], text))
            return true;
    return false;
}
