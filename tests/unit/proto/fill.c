#include "tests/unit/proto/fill.h"

#include <stdio.h>
#include <string.h>

void fill_message(const struct message_type *type, void *at_message, msgpack_zone *zone, unsigned salt)
{
    char *message = at_message;
    memset(message, 0, type->size);
    for (size_t i = 0; i < type->n_fields; i++) {
        const struct message_field *field = &type->fields[i];
        char *at = message + field->offset;
        size_t n = field->max_items < 3 ? (size_t)field->max_items : 3;
        char *word = msgpack_zone_malloc(zone, 16);
        int length = snprintf(word, 16, "w%u", (salt * 31 + (unsigned)i) % 1000);
        switch (field->kind) {
        case FIELD_FLAG:
            *(bool *)at = true;
            break;
        case FIELD_NUMBER:
            *(uint64_t *)at = field->max < 7 + salt ? field->max : field->max - salt;
            *(bool *)(message + field->extent) = true;
            break;
        case FIELD_INTEGER:
            *(int64_t *)at = -5 - (int64_t)salt;
            *(bool *)(message + field->extent) = true;
            break;
        case FIELD_TEXT:
            *(struct text *)at = (struct text){word, (size_t)length};
            break;
        case FIELD_BYTES:
            *(struct bytes *)at = (struct bytes){(const uint8_t *)word, (size_t)length};
            break;
        case FIELD_DIGEST:
            memset(at, (int)salt + 1, DIGEST_SIZE);
            *(bool *)(message + field->extent) = true;
            break;
        case FIELD_CHOICE:
            memcpy(at, &field->words[0].value, sizeof(int));
            break;
        case FIELD_TEXTS: {
            struct text *items = msgpack_zone_malloc(zone, n * sizeof *items);
            for (size_t j = 0; j < n; j++)
                items[j] = (struct text){word, (size_t)length};
            *(struct text **)at = items;
            *(size_t *)(message + field->extent) = n;
            break;
        }
        case FIELD_INTEGERS: {
            int64_t *items = msgpack_zone_malloc(zone, n * sizeof *items);
            for (size_t j = 0; j < n; j++)
                items[j] = (int64_t)j - 1;
            *(int64_t **)at = items;
            *(size_t *)(message + field->extent) = n;
            break;
        }
        case FIELD_NESTED: {
            char *nested = msgpack_zone_malloc(zone, field->type->size + 1);
            fill_message(field->type, nested, zone, salt + 1);
            *(char **)at = nested;
            break;
        }
        case FIELD_LIST: {
            char *items = msgpack_zone_malloc(zone, n * field->type->size);
            for (size_t j = 0; j < n; j++)
                fill_message(field->type, items + j * field->type->size, zone, salt + (unsigned)j);
            *(char **)at = items;
            *(size_t *)(message + field->extent) = n;
            break;
        }
        }
    }
}
