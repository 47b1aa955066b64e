/* Messages as JSON, for people and for --json. */
#include <string.h>

#include "proto/message.h"

struct printer {
    FILE *out;
    int indent; /* spaces per level; < 0 prints one line */
};

static void print_message(struct printer *printer, const struct message_type *type, const void *message, int depth);

static void print_break(const struct printer *printer, int depth)
{
    if (printer->indent >= 0)
        fprintf(printer->out, "\n%*s", printer->indent * depth, "");
}

/* The bytes of the UTF-8 character that begins here: 0 when it is none, overlong, a surrogate or beyond U+10FFFF. */
static size_t utf8_length(const unsigned char *at, size_t size)
{
    size_t n = at[0] < 0x80 ? 1 : at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : at[0] < 0xf5 ? 4 : 0;
    if (n > size)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f))
        return 0;
    if ((at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] > 0x8f))
        return 0;
    return n;
}

/* One character, or a replacement for a byte that begins none. Returns the bytes taken. */
static size_t print_character(FILE *out, const unsigned char *at, size_t size)
{
    size_t n = utf8_length(at, size);
    if (n == 0) {
        fputs("\\ufffd", out);
        return 1;
    }
    fwrite(at, 1, n, out);
    return n;
}

/* JSON is UTF-8; a text from a peer may be anything. */
static void print_string(FILE *out, const char *at, size_t size)
{
    fputc('"', out);
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)at[i];
        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c == '\n')
            fputs("\\n", out);
        else if (c == '\t')
            fputs("\\t", out);
        else if (c < 0x20 || c == 0x7f)
            fprintf(out, "\\u%04x", c);
        else
            i += print_character(out, (const unsigned char *)at + i, size - i) - 1;
    }
    fputc('"', out);
}

static void print_hex(FILE *out, const uint8_t *at, size_t size)
{
    fputc('"', out);
    for (size_t i = 0; i < size; i++)
        fprintf(out, "%02x", at[i]);
    fputc('"', out);
}

static void print_item(struct printer *printer, const struct message_field *field, const void *items, size_t i,
                       int depth)
{
    if (field->kind == FIELD_TEXTS) {
        const struct text *text = (const struct text *)items + i;
        print_string(printer->out, text->at, text->size);
    } else if (field->kind == FIELD_INTEGERS) {
        fprintf(printer->out, "%lld", (long long)((const int64_t *)items)[i]);
    } else {
        print_message(printer, field->type, (const char *)items + i * field->type->size, depth);
    }
}

/* Numbers on one line, everything else an item a line. */
static void print_array(struct printer *printer, const struct message_field *field, const char *message, int depth)
{
    const void *items;
    size_t n = *(const size_t *)(message + field->extent);
    bool flat = field->kind == FIELD_INTEGERS;
    memcpy(&items, message + field->offset, sizeof items);
    fputc('[', printer->out);
    for (size_t i = 0; i < n; i++) {
        if (i)
            fputs(flat ? ", " : ",", printer->out);
        if (!flat)
            print_break(printer, depth + 1);
        print_item(printer, field, items, i, depth + 1);
    }
    if (n && !flat)
        print_break(printer, depth);
    fputc(']', printer->out);
}

static void print_value(struct printer *printer, const struct message_field *field, const char *message, int depth)
{
    const char *at = message + field->offset;
    int number;
    switch (field->kind) {
    case FIELD_FLAG:
        fputs("true", printer->out);
        break;
    case FIELD_NUMBER:
        fprintf(printer->out, "%llu", (unsigned long long)*(const uint64_t *)at);
        break;
    case FIELD_INTEGER:
        fprintf(printer->out, "%lld", (long long)*(const int64_t *)at);
        break;
    case FIELD_TEXT:
        print_string(printer->out, ((const struct text *)at)->at, ((const struct text *)at)->size);
        break;
    case FIELD_BYTES:
        fprintf(printer->out, "{\"bytes\": %zu}", ((const struct bytes *)at)->size);
        break;
    case FIELD_DIGEST:
        print_hex(printer->out, (const uint8_t *)at, DIGEST_SIZE);
        break;
    case FIELD_CHOICE: {
        memcpy(&number, at, sizeof number);
        const char *word = message_word(field, number);
        print_string(printer->out, word ? word : "?", word ? strlen(word) : 1);
        break;
    }
    case FIELD_NESTED: {
        const void *nested;
        memcpy(&nested, at, sizeof nested);
        print_message(printer, field->type, nested, depth);
        break;
    }
    default:
        print_array(printer, field, message, depth);
    }
}

static void print_message(struct printer *printer, const struct message_type *type, const void *message, int depth)
{
    bool first = true;
    fputc('{', printer->out);
    for (size_t i = 0; i < type->n_fields; i++) {
        const struct message_field *field = &type->fields[i];
        if (!message_has(field, message))
            continue;
        if (!first)
            fputc(',', printer->out);
        if (printer->indent >= 0)
            print_break(printer, depth + 1);
        else if (!first)
            fputc(' ', printer->out);
        first = false;
        fprintf(printer->out, "\"%s\": ", field->name);
        print_value(printer, field, message, depth + 1);
    }
    if (!first)
        print_break(printer, depth);
    fputc('}', printer->out);
}

void message_print(const struct message_type *type, const void *message, FILE *out, int indent)
{
    struct printer printer = {out, indent};
    print_message(&printer, type, message, 0);
    fputc('\n', out);
}
