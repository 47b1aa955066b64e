#include "client/fusion.h"

#include <stdlib.h>
#include <string.h>

#include "client/error.h"
#include "proto/scan.h"

/* ---- from the tree to the message ---- */

static void pack_text(const char *text, size_t size, msgpack_packer *packer)
{
    msgpack_pack_str(packer, size);
    msgpack_pack_str_body(packer, text, size);
}

int fusion_pack_json(const json_t *value, msgpack_packer *packer, struct error *error)
{
    const char *name;
    json_t *item;
    size_t i;
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        msgpack_pack_map(packer, json_object_size(value));
        json_object_foreach((json_t *)(uintptr_t)value, name, item)
        {
            pack_text(name, strlen(name), packer);
            if (fusion_pack_json(item, packer, error) < 0)
                return -1;
        }
        return 0;
    case JSON_ARRAY:
        msgpack_pack_array(packer, json_array_size(value));
        json_array_foreach(value, i, item)
        {
            if (fusion_pack_json(item, packer, error) < 0)
                return -1;
        }
        return 0;
    case JSON_STRING:
        pack_text(json_string_value(value), json_string_length(value), packer);
        return 0;
    case JSON_INTEGER:
        msgpack_pack_int64(packer, json_integer_value(value));
        return 0;
    case JSON_REAL:
        msgpack_pack_double(packer, json_real_value(value));
        return 0;
    case JSON_TRUE:
        msgpack_pack_true(packer);
        return 0;
    case JSON_FALSE:
        msgpack_pack_false(packer);
        return 0;
    case JSON_NULL:
        msgpack_pack_nil(packer);
        return 0;
    }
    return error_set(error, STATUS_INVALID_FIELD, "a JSON value of unknown type %d", (int)json_typeof(value));
}

static int pack_tree(const struct fusiond_fusion *fusion, msgpack_sbuffer *out, struct error *error)
{
    msgpack_packer packer;
    const char *name;
    json_t *item;
    bool has_target = json_object_get(fusion->tree, "target") != NULL;
    msgpack_packer_init(&packer, out, msgpack_sbuffer_write);
    msgpack_pack_map(&packer, json_object_size(fusion->tree) + (has_target ? 1 : 2));
    /* What the message needs and is put in later. */
    pack_text("code", 4, &packer);
    pack_text("", 0, &packer);
    if (!has_target) {
        pack_text("target", 6, &packer);
        pack_text("", 0, &packer);
    }
    json_object_foreach(fusion->tree, name, item)
    {
        pack_text(name, strlen(name), &packer);
        if (fusion_pack_json(item, &packer, error) < 0)
            return -1;
    }
    return scan((const uint8_t *)out->data, out->size, error);
}

const struct fusion *fusion_message(struct fusiond_fusion *fusion, struct error *error)
{
    if (!fusion->stale)
        return &fusion->message;
    msgpack_sbuffer packed;
    struct fusion message;
    msgpack_zone *zone = msgpack_zone_new(4096);
    msgpack_sbuffer_init(&packed);
    if (!zone) {
        error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a fusion");
        goto fail;
    }
    if (pack_tree(fusion, &packed, error) < 0)
        goto fail;
    if (message_parse(&fusion_type, (const uint8_t *)packed.data, packed.size, zone, &message, error) < 0)
        goto fail;
    if (fusion->zone)
        msgpack_zone_free(fusion->zone);
    msgpack_sbuffer_destroy(&fusion->packed);
    fusion->zone = zone;
    fusion->packed = packed;
    fusion->message = message;
    fusion->has_target = json_object_get(fusion->tree, "target") != NULL;
    fusion->stale = false;
    return &fusion->message;
fail:
    if (zone)
        msgpack_zone_free(zone);
    msgpack_sbuffer_destroy(&packed);
    return NULL;
}

/* ---- life ---- */

struct fusiond_fusion *fusiond_fusion_create(void)
{
    struct fusiond_fusion *fusion = calloc(1, sizeof *fusion);
    if (!fusion)
        return NULL;
    msgpack_sbuffer_init(&fusion->packed);
    fusion->stale = true;
    fusion->tree = json_object();
    if (!fusion->tree) {
        free(fusion);
        return NULL;
    }
    return fusion;
}

void fusiond_fusion_destroy(struct fusiond_fusion *fusion)
{
    if (!fusion)
        return;
    for (size_t i = 0; i < fusion->n_headers; i++) {
        free(fusion->headers[i].name);
        free(fusion->headers[i].bytes);
    }
    if (fusion->zone)
        msgpack_zone_free(fusion->zone);
    msgpack_sbuffer_destroy(&fusion->packed);
    json_decref(fusion->tree);
    json_decref(fusion->run);
    free(fusion->headers);
    free(fusion->code);
    free(fusion->path);
    free(fusion->code_path);
    free(fusion);
}

/* ---- changes ---- */

static int no_memory(struct error *error)
{
    return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a fusion");
}

static int not_utf8(const char *field, struct error *error)
{
    return error_set(error, STATUS_INVALID_FIELD, "%s: not UTF-8, or memory ran out", field);
}

/* Set a field of an object; the value's reference is taken. */
static int set_field(struct fusiond_fusion *fusion, json_t *object, const char *name, json_t *value,
                     struct error *error)
{
    if (!value)
        return not_utf8(name, error);
    fusion->stale = true;
    return json_object_set_new(object, name, value) < 0 ? no_memory(error) : 0;
}

/* Append to an array of the object, made when it is absent; the value's reference is taken. */
static int append(struct fusiond_fusion *fusion, json_t *object, const char *name, json_t *value, struct error *error)
{
    if (!value)
        return not_utf8(name, error);
    json_t *array = json_object_get(object, name);
    if (!json_is_array(array)) {
        array = json_array();
        if (!array || json_object_set_new(object, name, array) < 0) {
            json_decref(value);
            return no_memory(error);
        }
    }
    fusion->stale = true;
    return json_array_append_new(array, value) < 0 ? no_memory(error) : 0;
}

/* The object of that name, made when it is absent. */
static json_t *child(json_t *object, const char *name)
{
    json_t *found = json_object_get(object, name);
    if (json_is_object(found))
        return found;
    found = json_object();
    return found && json_object_set_new(object, name, found) == 0 ? found : NULL;
}

int fusiond_fusion_set_code(struct fusiond_fusion *fusion, const char *code, size_t size, bool structured,
                            struct fusiond_error *ret_error)
{
    struct error error = {0};
    char *copy = malloc(size + 1);
    if (!copy || set_field(fusion, fusion->tree, "structured", json_boolean(structured), &error) < 0) {
        free(copy);
        return error_export(no_memory(&error), &error, ret_error);
    }
    memcpy(copy, code, size);
    copy[size] = '\0';
    free(fusion->code);
    fusion->code = copy;
    fusion->code_size = size;
    return 0;
}

int fusiond_fusion_add_entry(struct fusiond_fusion *fusion, const char *name, struct fusiond_error *ret_error)
{
    struct error error = {0};
    return error_export(append(fusion, fusion->tree, "entries", json_string(name), &error), &error, ret_error);
}

int fusion_take_header(struct fusiond_fusion *fusion, const char *name, void *bytes, size_t size, struct error *error)
{
    char *copy = strdup(name);
    struct fusion_header *headers = NULL;
    /* Room grows by doubling: at every power of two the array is full. */
    if ((fusion->n_headers & (fusion->n_headers - 1)) == 0)
        headers = reallocarray(fusion->headers, fusion->n_headers ? 2 * fusion->n_headers : 1, sizeof *headers);
    else
        headers = fusion->headers;
    if (headers)
        fusion->headers = headers;
    if (!copy || !headers) {
        free(copy);
        free(bytes);
        return no_memory(error);
    }
    fusion->headers[fusion->n_headers++] = (struct fusion_header){.name = copy, .bytes = bytes, .size = size};
    return 0;
}

int fusiond_fusion_add_header(struct fusiond_fusion *fusion, const char *name, const void *bytes, size_t size,
                              struct fusiond_error *ret_error)
{
    struct error error = {0};
    void *copy = malloc(size ? size : 1);
    if (!copy)
        return error_export(no_memory(&error), &error, ret_error);
    if (size)
        memcpy(copy, bytes, size);
    return error_export(fusion_take_header(fusion, name, copy, size, &error), &error, ret_error);
}

int fusiond_fusion_set_target(struct fusiond_fusion *fusion, const char *target, struct fusiond_error *ret_error)
{
    struct error error = {0};
    return error_export(set_field(fusion, fusion->tree, "target", json_string(target), &error), &error, ret_error);
}

/* Set "compile.block_size" in a tree; objects on the way are made. The value's reference is taken. */
static int set_path(struct fusiond_fusion *fusion, json_t *tree, const char *name, json_t *value, struct error *error)
{
    char part[LIMIT_NAME];
    const char *dot;
    while ((dot = strchr(name, '.'))) {
        size_t size = (size_t)(dot - name);
        if (size >= sizeof part || !(memcpy(part, name, size), part[size] = '\0', tree = child(tree, part))) {
            json_decref(value);
            return error_set(error, STATUS_UNKNOWN_FIELD, "%.*s: there is no such field", (int)size, name);
        }
        name = dot + 1;
    }
    return set_field(fusion, tree, name, value, error);
}

int fusiond_fusion_set_option(struct fusiond_fusion *fusion, const char *name, const char *value,
                              struct fusiond_error *ret_error)
{
    struct error error = {0};
    json_t *before = fusion->tree;
    json_t *after = json_deep_copy(before);
    json_t *parsed = json_loads(value, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
    if (!parsed)
        parsed = json_string(value);
    if (!after || !parsed) {
        json_decref(after);
        json_decref(parsed);
        return error_export(not_utf8(name, &error), &error, ret_error);
    }
    /* Checked at once, by the table, on a copy: a field that is wrong leaves the fusion as it was. */
    int result = set_path(fusion, after, name, parsed, &error);
    fusion->tree = after;
    if (result == 0 && !fusion_message(fusion, &error))
        result = -1;
    if (result < 0) {
        fusion->tree = before;
        fusion->stale = true;
        json_decref(after);
    } else {
        json_decref(before);
    }
    return error_export(result, &error, ret_error);
}

int fusiond_fusion_add_define(struct fusiond_fusion *fusion, const char *name, const char *value,
                              struct fusiond_error *ret_error)
{
    struct error error = {0};
    json_t *compile = child(fusion->tree, "compile");
    if (!compile)
        return error_export(no_memory(&error), &error, ret_error);
    json_t *define = value ? json_pack("{ss ss}", "name", name, "value", value) : json_pack("{ss}", "name", name);
    return error_export(append(fusion, compile, "defines", define, &error), &error, ret_error);
}

int fusiond_fusion_add_param(struct fusiond_fusion *fusion, const char *name, enum fusiond_param_kind kind,
                             enum fusiond_dtype dtype, unsigned rank, unsigned alloc_rank,
                             struct fusiond_error *ret_error)
{
    struct error error = {0};
    const char *kind_word = param_kind_word((int)kind);
    const char *dtype_word_ = dtype_word((int)dtype);
    if (!kind_word || !dtype_word_) {
        error_set(&error, STATUS_INVALID_FIELD, "params: %s: kind %d, dtype %d: no such value", name, (int)kind,
                  (int)dtype);
        return error_export(-1, &error, ret_error);
    }
    json_t *param = json_pack("{ss ss ss}", "name", name, "kind", kind_word, "dtype", dtype_word_);
    if (param && kind != FUSIOND_SCALAR && kind != FUSIOND_POINTER) {
        json_object_set_new(param, "rank", json_integer(rank));
        json_object_set_new(param, "alloc_rank", json_integer(alloc_rank));
    }
    return error_export(append(fusion, fusion->tree, "params", param, &error), &error, ret_error);
}

/* An array of strings; NULL items are written as `absent`. */
static json_t *strings(const char *const *items, size_t n, const char *absent)
{
    json_t *array = json_array();
    for (size_t i = 0; array && i < n; i++) {
        if (json_array_append_new(array, json_string(items[i] ? items[i] : absent)) < 0) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
}

int fusiond_fusion_add_output(struct fusiond_fusion *fusion, const char *name, const char *const *sizes, unsigned rank,
                              struct fusiond_error *ret_error)
{
    struct error error = {0};
    json_t *output = json_pack("{ss so*}", "name", name, "sizes", strings(sizes, rank, ""));
    return error_export(append(fusion, fusion->tree, "outputs", output, &error), &error, ret_error);
}

int fusiond_fusion_add_alias(struct fusiond_fusion *fusion, const char *name, const char *tensor,
                             struct fusiond_error *ret_error)
{
    struct error error = {0};
    json_t *output = json_pack("{ss ss}", "name", name, "alias", tensor);
    return error_export(append(fusion, fusion->tree, "outputs", output, &error), &error, ret_error);
}

int fusiond_fusion_add_intermediate(struct fusiond_fusion *fusion, const char *name, const char *const *sizes,
                                    unsigned rank, bool zero, struct fusiond_error *ret_error)
{
    struct error error = {0};
    json_t *intermediate = json_pack("{ss so* sb}", "name", name, "sizes", strings(sizes, rank, ""), "zero", zero);
    return error_export(append(fusion, fusion->tree, "intermediates", intermediate, &error), &error, ret_error);
}

int fusiond_fusion_set_launch(struct fusiond_fusion *fusion, const char *const grid[3], const char *const block[3],
                              const char *dynamic_shared_memory, struct fusiond_error *ret_error)
{
    struct error error = {0};
    json_t *launch = json_pack("{so* so*}", "grid", strings(grid, 3, "1"), "block", strings(block, 3, "1"));
    if (launch && dynamic_shared_memory)
        json_object_set_new(launch, "dynamic_shared_memory", json_string(dynamic_shared_memory));
    return error_export(set_field(fusion, fusion->tree, "launch", launch, &error), &error, ret_error);
}
