#include "daemon/compile/plan.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "proto/envelope.h"
#include "tests/unit/daemon/request_bytes.h"

static bool same_key(struct wish a, struct wish b)
{
    struct compiler_facts facts = wish_facts();
    struct plan *one = wish_plan(&a, &facts), *two = wish_plan(&b, &facts);
    bool same = memcmp(one->key, two->key, KEY_SIZE) == 0;
    plan_destroy(one);
    plan_destroy(two);
    return same;
}

Test(plan, F29_the_key_is_of_what_makes_the_kernel)
{
    uint8_t blob[DIGEST_SIZE];
    digest_of("#define A 1\n", 12, blob);
    cr_assert(same_key((struct wish){0}, (struct wish){.label = "for people"}));
    cr_assert_not(same_key((struct wish){0}, (struct wish){.code = "__global__ void f() { }\n"}));
    cr_assert_not(same_key((struct wish){0}, (struct wish){.target = "sm_80"}));
    cr_assert_not(same_key((struct wish){0}, (struct wish){.header = "#define A 1\n"}));
    cr_assert_not(same_key((struct wish){.header = "#define A 1\n"}, (struct wish){.header = "#define A 2\n"}));
    cr_assert_not(same_key((struct wish){.header = "#define A 1\n"}, (struct wish){.blob = blob}));
}

Test(plan, F29_another_compiler_is_another_key)
{
    struct wish wish = {0};
    struct compiler_facts facts = wish_facts(), other = wish_facts();
    other.build[0] ^= 1;
    struct plan *one = wish_plan(&wish, &facts), *two = wish_plan(&wish, &other);
    cr_assert_neq(memcmp(one->key, two->key, KEY_SIZE), 0);
    cr_assert_eq(memcmp(two->build, other.build, DIGEST_SIZE), 0);
    plan_destroy(one);
    plan_destroy(two);
}

static void expect_refused(const uint8_t *bytes, size_t size, enum status code)
{
    struct compiler_facts facts = wish_facts();
    struct plan *plan = NULL;
    struct error error = {0};
    int status = plan_create((struct bytes){bytes, size}, &plan, &error);
    if (status == 0)
        status = plan_settle(plan, &facts, &error);
    cr_assert_eq(status, -1);
    cr_assert_eq(error.code, code, "%s", error.text);
    plan_destroy(plan);
}

Test(plan, what_is_wrong_is_told)
{
    struct wish wish = {.target = "sm_12"};
    msgpack_sbuffer packed;
    wish_pack(&wish, &packed);
    expect_refused((const uint8_t *)packed.data, packed.size, STATUS_UNSUPPORTED_TARGET);
    msgpack_sbuffer_destroy(&packed);
    expect_refused((const uint8_t *)"\x80", 1, STATUS_MISSING_FIELD);
    plan_destroy(NULL);
}

Test(plan, the_job_has_program_headers_and_names)
{
    struct stats_reply stats = {0};
    struct blob_store blobs;
    struct compiler_facts facts = wish_facts();
    struct error error;
    struct wish wish = {.header = "#define A 1\n"};
    uint8_t blob[DIGEST_SIZE];
    struct bytes *texts;
    struct header_digest *missing;
    size_t n_missing;
    blob_store_init(&blobs, 1000, &stats);
    cr_assert_eq(blob_store_put(&blobs, (struct bytes){(const uint8_t *)"#define B 2\n", 12}, blob, &error), 0);
    wish.blob = blob;
    struct plan *plan = wish_plan(&wish, &facts);
    cr_assert_eq(plan_collect_headers(plan, &blobs, &texts, &missing, &n_missing, &error), 0, "%s", error.text);
    /* The texts are the plan's: the store may let go. */
    blob_store_finish(&blobs);

    msgpack_sbuffer frame;
    msgpack_zone *zone = msgpack_zone_new(4096);
    struct worker_job job;
    msgpack_sbuffer_init(&frame);
    cr_assert_eq(plan_write_job(plan, texts, false, &frame), 0);
    cr_assert_eq(
        envelope_read_message((const uint8_t *)frame.data + 4, frame.size - 4, &worker_job_type, zone, &job, &error), 0,
        "%s", error.text);
    cr_assert_not_null(strstr(job.program.at, "__global__ void f()"));
    cr_assert_eq(job.n_headers, 2);
    cr_assert(text_is(job.headers[0].name, "inline.h"));
    cr_assert_eq(memcmp(job.headers[0].bytes.at, "#define A 1\n", 12), 0);
    cr_assert(text_is(job.headers[1].name, "blob.h"));
    cr_assert_eq(memcmp(job.headers[1].bytes.at, "#define B 2\n", 12), 0);
    cr_assert_eq(job.n_names, 1);
    cr_assert_eq(job.image_kind, IMAGE_KIND_CUBIN);
    msgpack_sbuffer_destroy(&frame);
    msgpack_zone_free(zone);
    plan_destroy(plan);
}

static void expect_source_name(bool line_info, bool debug, bool structured)
{
    static struct compile_options options;
    struct compiler_facts facts = wish_facts();
    struct wish wish = {0};
    struct error error;
    struct plan *plan = wish_plan(&wish, &facts);
    char name[PLAN_SOURCE_NAME], line[PLAN_SOURCE_NAME + 16], hex[KEY_HEX];
    options = (struct compile_options){.line_info = line_info, .debug = debug};
    plan->request.fusion->compile = &options;
    plan->request.fusion->structured = structured;
    cr_assert_eq(plan_settle(plan, &facts, &error), 0, "%s", error.text);
    key_to_hex(plan->key, hex);
    plan_source_name(plan->key, name);
    cr_assert_not_null(strstr(name, hex));
    snprintf(line, sizeof line, "#line 1 \"%s\"\n", name);

    msgpack_sbuffer frame;
    msgpack_zone *zone = msgpack_zone_new(4096);
    struct worker_job job;
    msgpack_sbuffer_init(&frame);
    cr_assert_eq(plan_write_job(plan, NULL, false, &frame), 0);
    cr_assert_eq(
        envelope_read_message((const uint8_t *)frame.data + 4, frame.size - 4, &worker_job_type, zone, &job, &error), 0,
        "%s", error.text);
    const char *at = strstr(job.program.at, line);
    cr_expect_eq(at != NULL, line_info || debug, "%s", job.program.at);
    cr_expect_eq(job.source_name.at != NULL, line_info || debug);
    if (at) {
        const char *code = plan->resolved.program.at + plan->resolved.code_at;
        cr_expect_str_eq(at + strlen(line), code);
        cr_expect_eq(memcmp(job.program.at, plan->resolved.program.at, (size_t)(at - job.program.at)), 0);
        cr_expect_eq(job.program.size, strlen(job.program.at));
    }
    msgpack_sbuffer_destroy(&frame);
    msgpack_zone_free(zone);
    plan_destroy(plan);
}

Test(plan, B2_5_a_line_table_names_the_kernel)
{
    for (int structured = 0; structured < 2; structured++) {
        expect_source_name(false, false, structured);
        expect_source_name(true, false, structured);
        expect_source_name(false, true, structured);
    }
}

Test(plan, missing_blobs_are_listed)
{
    struct stats_reply stats = {0};
    struct blob_store blobs;
    struct compiler_facts facts = wish_facts();
    struct error error;
    uint8_t blob[DIGEST_SIZE] = {7};
    struct wish wish = {.header = "#define A 1\n", .blob = blob};
    struct bytes *texts = NULL;
    struct header_digest *missing = NULL;
    size_t n_missing = 0;
    blob_store_init(&blobs, 1000, &stats);
    struct plan *plan = wish_plan(&wish, &facts);
    cr_assert_eq(plan_collect_headers(plan, &blobs, &texts, &missing, &n_missing, &error), -1);
    cr_assert_eq(error.code, STATUS_UNKNOWN_BLOB);
    cr_assert_eq(n_missing, 1);
    cr_assert(text_is(missing[0].name, "blob.h"));
    cr_assert_eq(memcmp(missing[0].digest, blob, DIGEST_SIZE), 0);
    cr_assert_null(texts);
    plan_destroy(plan);
    blob_store_finish(&blobs);
}

/* ---- the prefix ---- */

static struct job_prefix prefix_of(struct wish wish, const struct compiler_facts *facts, char *ret_lines, size_t room)
{
    struct plan *plan = wish_plan(&wish, facts);
    plan_find_prefix(plan);
    struct job_prefix prefix = plan->prefix;
    if (ret_lines)
        snprintf(ret_lines, room, "%s", prefix.lines.at ? prefix.lines.at : "none");
    prefix.lines = (struct text){NULL, 0};
    plan_destroy(plan);
    return prefix;
}

static bool same_prefix(struct wish a, struct wish b)
{
    struct compiler_facts facts = wish_facts();
    struct job_prefix one = prefix_of(a, &facts, NULL, 0), two = prefix_of(b, &facts, NULL, 0);
    return memcmp(one.digest, two.digest, DIGEST_SIZE) == 0;
}

#define WITH(rest) ((struct wish){.code = "#include \"inline.h\"\n" rest, .header = "#define A 1\n"})

Test(plan, what_is_behind_and_between_the_includes_is_no_part_of_a_prefix)
{
    char lines[256];
    struct compiler_facts facts = wish_facts();
    prefix_of(
        (struct wish){.code = "// one\n# include <x> // two\n/* three */ #include \"y\"\n__global__ void f() {}\n"},
        &facts, lines, sizeof lines);
    cr_assert_str_eq(lines, "#include <x>\n#include \"y\"\n");
    cr_assert(same_prefix(WITH("__global__ void f() {}\n"), WITH("#define B\n__global__ void f() { }\n")));
    struct wish commented = WITH("__global__ void f() {}\n");
    commented.code = "// of another kernel\n#include \"inline.h\"\n__global__ void f() {}\n";
    cr_assert(same_prefix(WITH("__global__ void f() {}\n"), commented));
}

Test(plan, what_the_front_end_sees_is_a_part_of_a_prefix)
{
    struct wish one = WITH("__global__ void f() {}\n"), other = one;
    struct compiler_facts facts = wish_facts(), newer = wish_facts();
    other.header = "#define A 2\n";
    cr_assert_not(same_prefix(one, other), "a header's text");
    other = one;
    other.target = "sm_80";
    cr_assert_not(same_prefix(one, other), "the target");
    other = one;
    other.code = "#include \"inline.h\"\n#include \"more.h\"\n__global__ void f() {}\n";
    cr_assert_not(same_prefix(one, other), "the lines");
    newer.build[0] ^= 1;
    struct job_prefix a = prefix_of(one, &facts, NULL, 0), b = prefix_of(one, &newer, NULL, 0);
    cr_assert_neq(memcmp(a.digest, b.digest, DIGEST_SIZE), 0, "the compiler");
}

Test(plan, programs_that_get_no_precompiled_header)
{
    static const char *const codes[] = {
        "__global__ void f() {}\n",
        "#include \"fusiond/types.cuh\"\n__global__ void f() {}\n", /* the preamble is quick */
        "#define A\n#include <x>\n__global__ void f() {}\n",
    };
    struct compiler_facts facts = wish_facts();
    char lines[64];
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        prefix_of((struct wish){.code = codes[i]}, &facts, lines, sizeof lines);
        cr_expect_str_eq(lines, "none", "%s", codes[i]);
    }
}
