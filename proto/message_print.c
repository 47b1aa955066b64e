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
            fputc(c, out);
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
