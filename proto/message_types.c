/* The descriptors that messages.def, enums.def and methods.def expand to. */
#include "proto/message.h"

#include <stddef.h>

/* ---- words ---- */

#define ENUM(type) static const struct word type##_words[] = {
#define VALUE(type, name, word, number) {word, name},
#define ENUM_END(type)                                                                                                 \
    {                                                                                                                  \
        NULL, 0                                                                                                        \
    }                                                                                                                  \
    }                                                                                                                  \
    ;
#include "proto/enums.def"
#undef ENUM
#undef VALUE
#undef ENUM_END

static const char *word_of(const struct word *words, int value)
{
    for (; words->word; words++)
        if (words->value == value)
            return words->word;
    return NULL;
}

#define ENUM(type)                                                                                                     \
    const char *type##_word(int value)                                                                                 \
    {                                                                                                                  \
        return word_of(type##_words, value);                                                                           \
    }
#define VALUE(type, name, word, number)
#define ENUM_END(type)
#include "proto/enums.def"
#undef ENUM
#undef VALUE
#undef ENUM_END

/* Decoding and encoding copy an int in and out of a CHOICE. */
#define ENUM(type) _Static_assert(sizeof(enum type) == sizeof(int), "enum " #type " has an int's size");
#define VALUE(type, name, word, number)
#define ENUM_END(type)
#include "proto/enums.def"
#undef ENUM
#undef VALUE
#undef ENUM_END

/* ---- fields ----
 * A message without fields still needs an array, so each ends with an empty row that n_fields does not count. */

#define NEEDED true
#define OPTIONAL false
#define AT(m, field) offsetof(struct m, field)

#define MESSAGE(m, policy) static const struct message_field m##_fields[] = {
#define FLAG(m, field) {#field, sizeof(#field) - 1, FIELD_FLAG, false, AT(m, field), 0, 0, 0, NULL, NULL},
#define NUMBER(m, field, need, max)                                                                                    \
    {#field, sizeof(#field) - 1, FIELD_NUMBER, need, AT(m, field), AT(m, has_##field), max, 0, NULL, NULL},
#define INTEGER(m, field, need)                                                                                        \
    {#field, sizeof(#field) - 1, FIELD_INTEGER, need, AT(m, field), AT(m, has_##field), 0, 0, NULL, NULL},
#define TEXT(m, field, need, max) {#field, sizeof(#field) - 1, FIELD_TEXT, need, AT(m, field), 0, max, 0, NULL, NULL},
#define BYTES(m, field, need, max) {#field, sizeof(#field) - 1, FIELD_BYTES, need, AT(m, field), 0, max, 0, NULL, NULL},
#define DIGEST(m, field, need)                                                                                         \
    {#field, sizeof(#field) - 1, FIELD_DIGEST, need, AT(m, field), AT(m, has_##field), DIGEST_SIZE, 0, NULL, NULL},
#define CHOICE(m, field, need, type)                                                                                   \
    {#field, sizeof(#field) - 1, FIELD_CHOICE, need, AT(m, field), 0, 0, 0, NULL, type##_words},
#define TEXTS(m, field, max_items, max)                                                                                \
    {#field, sizeof(#field) - 1, FIELD_TEXTS, false, AT(m, field), AT(m, n_##field), max, max_items, NULL, NULL},
#define INTEGERS(m, field, max_items)                                                                                  \
    {#field, sizeof(#field) - 1, FIELD_INTEGERS, false, AT(m, field), AT(m, n_##field), 0, max_items, NULL, NULL},
#define NESTED(m, field, need, type)                                                                                   \
    {#field, sizeof(#field) - 1, FIELD_NESTED, need, AT(m, field), 0, 0, 0, &type##_type, NULL},
#define LIST(m, field, max_items, type)                                                                                \
    {#field, sizeof(#field) - 1, FIELD_LIST, false, AT(m, field), AT(m, n_##field), 0, max_items, &type##_type, NULL},
#define MESSAGE_END(m)                                                                                                 \
    {                                                                                                                  \
        NULL, 0, FIELD_FLAG, false, 0, 0, 0, 0, NULL, NULL                                                             \
    }                                                                                                                  \
    }                                                                                                                  \
    ;
#include "proto/messages.def"
#undef MESSAGE
#undef MESSAGE_END
#undef FLAG
#undef NUMBER
#undef INTEGER
#undef TEXT
#undef BYTES
#undef DIGEST
#undef CHOICE
#undef TEXTS
#undef INTEGERS
#undef NESTED
#undef LIST

/* ---- types ---- */

#define STRICT true
#define LENIENT false
#define FLAG(...)
#define NUMBER(...)
#define INTEGER(...)
#define TEXT(...)
#define BYTES(...)
#define DIGEST(...)
#define CHOICE(...)
#define TEXTS(...)
#define INTEGERS(...)
#define NESTED(...)
#define LIST(...)

/* The decoder marks the fields it has seen in LIMIT_MAP places. */
#define MESSAGE(m, policy)                                                                                             \
    _Static_assert(sizeof m##_fields / sizeof m##_fields[0] - 1 <= LIMIT_MAP, #m " has too many fields");              \
    const struct message_type m##_type = {#m, policy, sizeof(struct m), sizeof m##_fields / sizeof m##_fields[0] - 1,  \
                                          m##_fields};
#define MESSAGE_END(m)
#include "proto/messages.def"
#undef MESSAGE
#undef MESSAGE_END

#define MESSAGE(m, policy) &m##_type,
#define MESSAGE_END(m)
const struct message_type *const message_types[] = {
#include "proto/messages.def"
    NULL};
#undef MESSAGE
#undef MESSAGE_END

/* ---- methods ---- */

const struct method_info methods[METHOD_COUNT] = {
    {0},
#define METHOD(name, wire, where, request, reply) {wire, METHOD_##where, &request##_type, &reply##_type},
#include "proto/methods.def"
#undef METHOD
};
