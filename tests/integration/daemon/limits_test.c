/* One beyond every limit of every field that a client sends: the error names the field and the limit, and the
 * connection goes on. The fields and limits are those of the message table, so that a new row is tested too. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/integration/daemon/fixture.h"

static struct daemon_process daemon_;
static struct base_line base;
static struct wire wire;

static void setup(void)
{
    daemon_start_or_skip(&daemon_, NULL);
    base = base_line_take(&daemon_);
    wire_open(&wire, daemon_.socket);
}

static void teardown(void)
{
    daemon_finish(&daemon_);
}

/* At the end of every test: whatever was done to it, the daemon answers others, has leaked nothing, and ends in order.
 */
static void daemon_is_well(void)
{
    wire_close(&wire);
    base_line_check(&base);
    daemon_stop_in_order(&daemon_);
}

TestSuite(limits, .init = setup, .fini = teardown);

/* A valid request with one of everything, to be spoilt in one place. */
struct everything {
    struct compile_request request;
    struct fusion fusion;
    struct header header;
    struct define define;
    struct compile_options options;
    struct requirements requires;
    struct param param;
    struct output output;
    struct launch launch;
    struct sample_tensor sample;
    struct text entry, size, grid;
    int64_t extent;
};

static void make_everything(struct everything *all)
{
    *all = (struct everything){
        .header = {.name = TEXT_OF("a.h"), .bytes = {(const uint8_t *)"int a;", 6}},
        .define = {.name = TEXT_OF("A")},
        .param = {.name = TEXT_OF("x"), .kind = PARAM_KIND_OUTPUT, .dtype = DTYPE_FLOAT32, .rank = 1, .has_rank = true},
        .output = {.name = TEXT_OF("x"), .sizes = &all->size, .n_sizes = 1},
        .launch = {.grid = &all->grid, .n_grid = 1},
        .sample = {.sizes = &all->extent, .n_sizes = 1},
        .entry = TEXT_OF("k"),
        .size = TEXT_OF("1"),
        .grid = TEXT_OF("1"),
        .extent = 1,
    };
    all->options = (struct compile_options){.defines = &all->define, .n_defines = 1};
    all->fusion = (struct fusion){
        .code = TEXT_OF("__global__ void k(float *x) {}"),
        .structured = true,
        .entries = &all->entry,
        .n_entries = 1,
        .headers = &all->header,
        .n_headers = 1,
        .target = TEXT_OF("sm_90a"),
        .compile = &all->options,
        .requires = &all->requires,
        .params = &all->param,
        .n_params = 1,
        .outputs = &all->output,
        .n_outputs = 1,
        .launch = &all->launch,
    };
    all->request = (struct compile_request){.fusion = &all->fusion, .sample = &all->sample, .n_sample = 1};
}

static void expect_refusal(enum method method, const void *params, const struct message_type *type,
                           const struct message_field *field, uint64_t limit)
{
    struct failure failure = {0};
    char digits[32];
    unsigned code = wire_call(&wire, method, params, NULL, &failure);
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)limit);
    cr_expect(code == STATUS_INVALID_FIELD, "%s.%s: %s: %s", type->name, field->name, status_name((enum status)code),
              failure.text.at ? failure.text.at : "accepted");
    if (code == 0)
        return;
    cr_expect(strstr(failure.text.at, field->name), "%s.%s is not named: %s", type->name, field->name, failure.text.at);
    cr_expect(strstr(failure.text.at, digits), "%s.%s: the limit %s is not named: %s", type->name, field->name, digits,
              failure.text.at);
}

/* Make one field of the object one beyond its limits, in every way that it has; send; put it back. */
static size_t spoil(enum method method, const void *params, const struct message_type *type, void *object)
{
    size_t tried = 0;
    for (size_t i = 0; i < type->n_fields; i++) {
        const struct message_field *field = &type->fields[i];
        char saved[4096];
        char *value = (char *)object + field->offset, *extent = (char *)object + field->extent;
        bool is_list = field->kind == FIELD_TEXTS || field->kind == FIELD_INTEGERS || field->kind == FIELD_LIST;
        void *items = is_list ? calloc(field->max_items + 1, message_item_size(field)) : NULL;
        char *long_text = field->kind == FIELD_TEXT || field->kind == FIELD_TEXTS || field->kind == FIELD_BYTES
                              ? malloc(field->max + 1)
                              : NULL;
        cr_assert(type->size <= sizeof saved);
        memcpy(saved, object, type->size);
        if (long_text)
            memset(long_text, 'a', field->max + 1);
        if (field->kind == FIELD_NUMBER && field->max < UINT64_MAX) {
            *(uint64_t *)value = field->max + 1;
            *(bool *)extent = true;
        } else if (field->kind == FIELD_TEXT) {
            *(struct text *)value = (struct text){long_text, field->max + 1};
        } else if (field->kind == FIELD_BYTES && field->max < LIMIT_FRAME) {
            *(struct bytes *)value = (struct bytes){(uint8_t *)long_text, field->max + 1};
        } else if (is_list) {
            *(void **)value = items;
            *(size_t *)extent = field->max_items + 1;
            for (size_t j = 0; field->kind == FIELD_TEXTS && j <= field->max_items; j++)
                ((struct text *)items)[j] = TEXT_OF("a");
        }
        if (memcmp(saved, object, type->size) != 0) {
            expect_refusal(method, params, type, field, is_list ? field->max_items : field->max);
            tried++;
        }
        if (field->kind == FIELD_TEXTS) { /* and one item that is too long */
            *(size_t *)extent = 1;
            ((struct text *)items)[0] = (struct text){long_text, field->max + 1};
            expect_refusal(method, params, type, field, field->max);
        }
        memcpy(object, saved, type->size);
        free(items);
        free(long_text);
    }
    return tried;
}

Test(limits, B_one_beyond_every_limit_of_a_fusion)
{
    struct everything all;
    make_everything(&all);
    cr_assert(wire_call(&wire, METHOD_COMPILE, &all.request, NULL, NULL) == 0);
    const struct {
        const struct message_type *type;
        void *object;
    } parts[] = {
        {&compile_request_type, &all.request},
        {&fusion_type, &all.fusion},
        {&header_type, &all.header},
        {&define_type, &all.define},
        {&compile_options_type, &all.options},
        {&requirements_type, &all.requires},
        {&param_type, &all.param},
        {&output_type, &all.output},
        {&launch_type, &all.launch},
        {&sample_tensor_type, &all.sample},
    };
    size_t tried = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        tried += spoil(METHOD_COMPILE, &all.request, parts[i].type, parts[i].object);
    cr_assert(tried >= 30, "%zu", tried);
    /* Nothing of that has cost a compile, and the request is still fine. */
    cr_assert(wire_call(&wire, METHOD_COMPILE, &all.request, NULL, NULL) == 0);
    cr_assert(wire_stats(daemon_.socket).compiles_total == 1);
    daemon_is_well();
}

Test(limits, B_one_beyond_every_limit_of_the_others)
{
    struct kernel_get_request get = {.has_key = true};
    struct kernel_list_request list = {0};
    struct blob_put_request put = {.bytes = {(const uint8_t *)"a", 1}};
    struct cancel_request cancel = {.has_request = true};
    size_t tried = spoil(METHOD_KERNEL_GET, &get, &kernel_get_request_type, &get) +
                   spoil(METHOD_KERNEL_LIST, &list, &kernel_list_request_type, &list) +
                   spoil(METHOD_BLOB_PUT, &put, &blob_put_request_type, &put) +
                   spoil(METHOD_CANCEL, &cancel, &cancel_request_type, &cancel);
    cr_assert(tried >= 8, "%zu", tried);
    /* hello comes first: a connection for each attempt would do, but one is enough until one is accepted. */
    struct wire greeting;
    struct failure failure;
    struct hello_request hello = {
        .protocol_min = 1, .has_protocol_min = true, .protocol_max = 65536, .has_protocol_max = true};
    wire_connect(&greeting, daemon_.socket);
    cr_assert(wire_call(&greeting, METHOD_HELLO, &hello, NULL, &failure) == STATUS_INVALID_FIELD);
    cr_assert(strstr(failure.text.at, "protocol_max") && strstr(failure.text.at, "65536") &&
                  strstr(failure.text.at, "65535"),
              "%s", failure.text.at);
    wire_close(&greeting);
    daemon_is_well();
}

/* The raw frame of a compile whose map at some level has a key too many. */
static void write_colours(msgpack_sbuffer *out, int level)
{
    msgpack_packer pk;
    msgpack_packer_init(&pk, out, msgpack_sbuffer_write);
    msgpack_pack_array(&pk, 4);
    msgpack_pack_int(&pk, 0);
    msgpack_pack_int(&pk, 9);
    msgpack_pack_str_with_body(&pk, "compile", 7);
    msgpack_pack_map(&pk, level == 0 ? 2 : 1);
    if (level == 0) {
        msgpack_pack_str_with_body(&pk, "colour", 6);
        msgpack_pack_int(&pk, 1);
    }
    msgpack_pack_str_with_body(&pk, "fusion", 6);
    msgpack_pack_map(&pk, level == 0 ? 2 : 3);
    msgpack_pack_str_with_body(&pk, "code", 4);
    msgpack_pack_str_with_body(&pk, "x", 1);
    msgpack_pack_str_with_body(&pk, "target", 6);
    msgpack_pack_str_with_body(&pk, "sm_90a", 6);
    if (level == 0)
        return;
    if (level > 1) {
        msgpack_pack_str_with_body(&pk, level == 2 ? "compile" : "headers", 7);
        if (level == 3)
            msgpack_pack_array(&pk, 1);
        msgpack_pack_map(&pk, 1);
    }
    msgpack_pack_str_with_body(&pk, "colour", 6);
    msgpack_pack_int(&pk, 1);
}

Test(limits, B_unknown_fields_of_a_fusion)
{
    for (int level = 0; level < 4; level++) {
        struct failure failure;
        msgpack_sbuffer out;
        msgpack_sbuffer_init(&out);
        write_colours(&out, level);
        cr_assert(wire_send_payload(&wire, out.data, out.size));
        cr_assert(wire_answer(&wire, 9, METHOD_COMPILE, NULL, &failure) == STATUS_UNKNOWN_FIELD, "level %d: %s", level,
                  failure.text.at);
        cr_assert(strstr(failure.text.at, "colour"), "%s", failure.text.at);
        msgpack_sbuffer_destroy(&out);
    }
    daemon_is_well();
}
