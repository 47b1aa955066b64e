/* proto/PROTOCOL.md against the tables and the engine: it must name all there is, as it is, and its examples must hold.
 */
#include <criterion/criterion.h>
#include <ctype.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "proto/envelope.h"
#include "proto/frame.h"

static char *read_whole(const char *path)
{
    FILE *file = fopen(path, "re");
    cr_assert_not_null(file, "%s", path);
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    for (int c = fgetc(file); c != EOF; c = fgetc(file))
        fputc(c, out);
    fclose(out);
    fclose(file);
    return text;
}

static char *document(void)
{
    return read_whole(SOURCE_ROOT "/proto/PROTOCOL.md");
}

/* ---- tables ---- */

/* Whether the text, up to `end` (NULL: its end), has a line that begins with `start`. */
static bool has_line(const char *text, const char *end, const char *start)
{
    size_t n = strlen(start);
    for (const char *line = text; line && (!end || line < end); line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, start, n) == 0)
            return true;
        if (!*line)
            return false;
    }
    return false;
}

/* The section under the heading `name`, up to the next heading. */
static const char *section(const char *text, const char *name, const char **ret_end)
{
    char heading[128];
    snprintf(heading, sizeof heading, "\n#### `%s`\n", name);
    const char *start = strstr(text, heading);
    cr_assert_not_null(start, "no section \"#### `%s`\"", name);
    start += strlen(heading);
    cr_assert_null(strstr(start, heading), "two sections \"#### `%s`\"", name);
    *ret_end = strstr(start, "\n#");
    return start;
}

static void write_number(char *ret, size_t room, uint64_t number)
{
    if (number == UINT64_MAX)
        snprintf(ret, room, "2^64−1");
    else if (number == UINT32_MAX)
        snprintf(ret, room, "2^32−1");
    else
        snprintf(ret, room, "%llu", (unsigned long long)number);
}

/* Type and limit of a field, as the document writes them. */
static void write_type(const struct message_field *field, char type[96], char limit[64])
{
    const char *of = field->type ? field->type->name : "";
    snprintf(limit, 64, "–");
    switch (field->kind) {
    case FIELD_FLAG:
        strcpy(type, "bool");
        break;
    case FIELD_NUMBER:
        strcpy(type, "uint");
        write_number(limit, 64, field->max);
        break;
    case FIELD_INTEGER:
        strcpy(type, "int");
        break;
    case FIELD_TEXT:
    case FIELD_BYTES:
        strcpy(type, field->kind == FIELD_TEXT ? "text" : "bytes");
        snprintf(limit, 64, "%llu bytes", (unsigned long long)field->max);
        break;
    case FIELD_DIGEST:
        strcpy(type, "digest");
        snprintf(limit, 64, "32 bytes");
        break;
    case FIELD_CHOICE:
        strcpy(type, "word");
        break;
    case FIELD_TEXTS:
        strcpy(type, "list of text");
        snprintf(limit, 64, "%llu of %llu bytes", (unsigned long long)field->max_items, (unsigned long long)field->max);
        break;
    case FIELD_INTEGERS:
        strcpy(type, "list of int");
        snprintf(limit, 64, "%llu", (unsigned long long)field->max_items);
        break;
    case FIELD_NESTED:
        snprintf(type, 96, "`%s`", of);
        break;
    case FIELD_LIST:
        snprintf(type, 96, "list of `%s`", of);
        snprintf(limit, 64, "%llu", (unsigned long long)field->max_items);
        break;
    }
}

/* Rows of fields in a section. */
static size_t count_rows(const char *start, const char *end)
{
    size_t n = 0;
    for (const char *at = strstr(start, "\n| `"); at && (!end || at < end); at = strstr(at + 1, "\n| `"))
        n++;
    return n;
}

Test(protocol_md, describes_every_field_of_every_message)
{
    char *text = document();
    for (size_t i = 0; message_types[i]; i++) {
        const struct message_type *type = message_types[i];
        const char *end, *start = section(text, type->name, &end);
        cr_assert(has_line(start, end, type->strict ? "Unknown keys are refused." : "Unknown keys are ignored."),
                  "%s does not say what becomes of unknown keys", type->name);
        for (size_t j = 0; j < type->n_fields; j++) {
            const struct message_field *field = &type->fields[j];
            char kind[96], limit[64], row[320];
            write_type(field, kind, limit);
            snprintf(row, sizeof row, "| `%s` | %s | %s | %s | ", field->name, kind, field->needed ? "yes" : "no",
                     limit);
            cr_assert(has_line(start, end, row), "%s lacks the row \"%s\"", type->name, row);
        }
        cr_assert_eq(count_rows(start, end), type->n_fields, "%s has rows for fields that it has not", type->name);
    }
    free(text);
}

Test(protocol_md, describes_every_error)
{
    char *text = document(), row[512];
    size_t n = 0;
#define ERROR(name, number, retryable, sentence)                                                                       \
    snprintf(row, sizeof row, "| %d | `%s` | %s | %s |", number, #name, retryable ? "yes" : "no", sentence);           \
    cr_assert(has_line(text, NULL, row), "no row \"%s\"", row);                                                        \
    n++;
#include "proto/errors.def"
#undef ERROR
    const char *start = strstr(text, "\n## Errors\n");
    cr_assert_not_null(start);
    const char *end = strstr(start + 1, "\n#");
    size_t rows = 0;
    for (const char *at = strstr(start, "\n| "); at && at < end; at = strstr(at + 1, "\n| "))
        rows += isdigit((unsigned char)at[3]) != 0;
    cr_assert_eq(rows, n);
    free(text);
}

Test(protocol_md, describes_every_word)
{
    char *text = document(), row[128];
    const char *end = NULL, *start = NULL;
    size_t n = 0;
#define ENUM(type)                                                                                                     \
    start = section(text, #type, &end);                                                                                \
    n = 0;
#define VALUE(type, name, word, number)                                                                                \
    snprintf(row, sizeof row, "| `%s` | ", word);                                                                      \
    cr_assert(has_line(start, end, row), "%s lacks \"%s\"", #type, word);                                              \
    n++;
#define ENUM_END(type) cr_assert_eq(count_rows(start, end), n, "%s has words that do not exist", #type);
#include "proto/enums.def"
#undef ENUM
#undef VALUE
#undef ENUM_END
    free(text);
}

Test(protocol_md, describes_every_method)
{
    char *text = document(), row[160];
    for (int i = 1; i < METHOD_COUNT; i++) {
        snprintf(row, sizeof row, "| [`%s`](#", methods[i].name);
        cr_assert(has_line(text, NULL, row), "no row \"%s\"", row);
        snprintf(row, sizeof row, ") | `%s` | `%s` |", methods[i].request->name, methods[i].reply->name);
        cr_assert_not_null(strstr(text, row), "no row with \"%s\"", row);
        snprintf(row, sizeof row, "### `%s`", methods[i].name);
        cr_assert(has_line(text, NULL, row), "no heading \"%s\"", row);
    }
    free(text);
}

/* The value of a limit as limits.h writes it: a number, or a number shifted. */
static unsigned long long value_of(const char *text)
{
    char *end = NULL;
    while (*text == ' ' || *text == '(')
        text++;
    unsigned long long value = strtoull(text, &end, 0);
    cr_assert_neq((void *)end, (void *)text);
    end += strspn(end, "ul");
    while (*end == ' ')
        end++;
    if (strncmp(end, "<<", 2) == 0)
        value <<= strtoull(end + 2, NULL, 10);
    return value;
}

Test(protocol_md, describes_every_limit)
{
    char *text = document(), *limits = read_whole(SOURCE_ROOT "/proto/limits.h");
    static const char define[] = "#define LIMIT_";
    size_t n = 0;
    for (char *at = strstr(limits, define); at; at = strstr(at + 1, define)) {
        char name[64], row[160];
        int used = 0;
        cr_assert_eq(sscanf(at, "#define %63s%n", name, &used), 1);
        snprintf(row, sizeof row, "| `%s` | %llu | ", name, value_of(at + used));
        cr_assert(has_line(text, NULL, row), "no row \"%s\"", row);
        n++;
    }
    cr_assert_gt(n, 20);
    free(limits);
    free(text);
}

/* ---- examples ---- */

/* The bytes between ```hex and ```. The caller frees them. */
static uint8_t *read_hex(const char *at, const char *end, size_t *ret_size)
{
    uint8_t *bytes = malloc((size_t)(end - at));
    size_t n = 0;
    cr_assert_not_null(bytes);
    while (at < end) {
        unsigned value;
        int used = 0;
        if (isspace((unsigned char)*at)) {
            at++;
            continue;
        }
        cr_assert_eq(sscanf(at, "%2x%n", &value, &used), 1, "not hexadecimal: %.20s", at);
        cr_assert_eq(used, 2);
        bytes[n++] = (uint8_t)value;
        at += 2;
    }
    *ret_size = n;
    return bytes;
}

/* One packed message as JSON, by the engine. */
static json_t *print(const struct message_type *type, struct bytes packed)
{
    msgpack_zone zone;
    struct error error = {0};
    char *text = NULL;
    size_t size = 0;
    cr_assert(msgpack_zone_init(&zone, 4096));
    void *message = msgpack_zone_malloc(&zone, type->size + 1);
    cr_assert_eq(message_parse(type, packed.at, packed.size, &zone, message, &error), 0, "%s: %s", type->name,
                 error.text);
    msgpack_sbuffer again;
    msgpack_sbuffer_init(&again);
    cr_assert_eq(message_pack(type, message, &again), 0);
    cr_assert_eq(again.size, packed.size, "an example of %s is not canonical", type->name);
    cr_assert_arr_eq(again.data, packed.at, packed.size, "an example of %s is not canonical", type->name);
    msgpack_sbuffer_destroy(&again);
    FILE *out = open_memstream(&text, &size);
    message_print(type, message, out, -1);
    fclose(out);
    msgpack_zone_destroy(&zone);
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    cr_assert_not_null(json, "%s", text);
    free(text);
    return json;
}

static const struct message_type *type_named(struct text name)
{
    if (text_is(name, NOTIFICATION_COMPILE_PROGRESS))
        return &compile_progress_type;
    for (size_t i = 0; message_types[i]; i++)
        if (text_is(name, message_types[i]->name))
            return message_types[i];
    cr_assert_fail("no message \"%.*s\"", (int)name.size, name.at);
    return NULL;
}

/* Which examples there were. */
struct seen {
    enum method method_of[256]; /* by request id, as a client remembers it */
    bool requests[METHOD_COUNT], replies[METHOD_COUNT];
    bool failures, ready, job, result, progress;
};

static json_t *as_json(const struct envelope *envelope, struct seen *seen)
{
    json_t *array = json_array();
    json_array_append_new(array, json_integer((json_int_t)envelope->kind));
    if (envelope->kind == ENVELOPE_NOTIFICATION) {
        const struct message_type *type = type_named(envelope->name);
        seen->ready |= type == &worker_ready_type;
        seen->job |= type == &worker_job_type;
        seen->result |= type == &worker_result_type;
        seen->progress |= type == &compile_progress_type;
        json_array_append_new(array, json_stringn(envelope->name.at, envelope->name.size));
        json_array_append_new(array, print(type, envelope->body));
        return array;
    }
    cr_assert_lt(envelope->id, 256);
    json_array_append_new(array, json_integer((json_int_t)envelope->id));
    if (envelope->kind == ENVELOPE_REQUEST) {
        cr_assert_neq(envelope->method, METHOD_UNKNOWN);
        seen->method_of[envelope->id] = envelope->method;
        seen->requests[envelope->method] = true;
        json_array_append_new(array, json_string(methods[envelope->method].name));
        json_array_append_new(array, print(methods[envelope->method].request, envelope->body));
    } else if (envelope->error.at) {
        seen->failures = true;
        json_array_append_new(array, print(&failure_type, envelope->error));
        json_array_append_new(array, json_null());
    } else {
        enum method method = seen->method_of[envelope->id];
        cr_assert_neq(method, METHOD_UNKNOWN, "a reply to no request, id %u", envelope->id);
        seen->replies[method] = true;
        json_array_append_new(array, json_null());
        json_array_append_new(array, print(methods[method].reply, envelope->body));
    }
    return array;
}

static void check_example(const char *json, const uint8_t *bytes, size_t size, struct seen *seen)
{
    struct frame_reader reader;
    struct envelope envelope;
    struct error error = {0};
    json_error_t where;
    const uint8_t *payload = NULL;
    size_t room = 0, got = 0;
    frame_reader_init(&reader, LIMIT_FRAME_GREETING);
    uint8_t *to = frame_reader_room(&reader, &room);
    cr_assert(to && size <= room, "an example of %zu bytes", size);
    memcpy(to, bytes, size);
    frame_reader_filled(&reader, size);
    cr_assert_eq(frame_reader_next(&reader, &payload, &got, &error), 1, "%s", json);
    cr_assert_not(frame_reader_pending(&reader), "the length is wrong: %s", json);
    cr_assert_eq(envelope_read(payload, got, &envelope, &error), 0, "%s", error.text);
    json_t *shown = json_loads(json, JSON_REJECT_DUPLICATES, &where);
    cr_assert_not_null(shown, "%s: %s", where.text, json);
    json_t *printed = as_json(&envelope, seen);
    char *text = json_dumps(printed, JSON_COMPACT);
    cr_assert(json_equal(shown, printed), "the bytes say %s, the document %s", text, json);
    free(text);
    json_decref(shown);
    json_decref(printed);
    frame_reader_finish(&reader);
}

Test(protocol_md, every_example_decodes_to_what_it_shows)
{
    static const char json_fence[] = "\n```json\n", hex_fence[] = "\n```\n```hex\n", close_fence[] = "\n```\n";
    char *text = document();
    struct seen seen = {0};
    size_t n = 0, n_hex = 0;
    for (char *at = strstr(text, "\n```hex"); at; at = strstr(at + 1, "\n```hex"))
        n_hex++;
    for (char *at = strstr(text, json_fence); at; at = strstr(at, json_fence)) {
        size_t size;
        char *json = at + strlen(json_fence), *middle = strstr(json, hex_fence);
        cr_assert_not_null(middle);
        char *hex = middle + strlen(hex_fence), *end = strstr(hex, close_fence);
        cr_assert_not_null(end);
        cr_assert(strstr(json, close_fence) == middle, "a json block without its hex block");
        *middle = '\0';
        uint8_t *bytes = read_hex(hex, end, &size);
        check_example(json, bytes, size, &seen);
        free(bytes);
        at = end;
        n++;
    }
    cr_assert_eq(n, n_hex);
    for (int i = 1; i < METHOD_COUNT; i++)
        cr_assert(seen.requests[i] && seen.replies[i], "%s has no example of its request or its reply",
                  methods[i].name);
    cr_assert(seen.failures && seen.ready && seen.job && seen.result && seen.progress);
    free(text);
}
