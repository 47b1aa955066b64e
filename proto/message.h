/* Messages: the structs that messages.def describes, and what can be done with any of them. */
#ifndef PROTO_MESSAGE_H
#define PROTO_MESSAGE_H

#include <msgpack.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "proto/error.h"
#include "proto/limits.h"

#define DIGEST_SIZE 32

/* A string. After decoding it ends with a NUL that `size` does not count, and lives in the decoder's zone.
 * at == NULL: absent. */
struct text {
    const char *at;
    size_t size;
};

/* Bytes, borrowed: after decoding they lie in the frame itself. at == NULL: absent. */
struct bytes {
    const uint8_t *at;
    size_t size;
};

#define TEXT_OF(literal) ((struct text){(literal), sizeof(literal) - 1})
struct text text_of(const char *string); /* NULL gives an absent text */
bool text_is(struct text text, const char *string);
/* For a sentence or a log line: a NUL-terminated copy, cut to `room` bytes, with ? for all but printable ASCII, so that
 * a peer's bytes can neither forge a line nor break the encoding. Returns ret. */
const char *text_show(struct text text, char *ret, size_t room);

/* ---- the enums of enums.def ---- */

#define ENUM(type) enum type { type##_absent = 0,
#define VALUE(type, name, word, number) name = (number),
#define ENUM_END(type)                                                                                                 \
    }                                                                                                                  \
    ;
#include "proto/enums.def"
#undef ENUM
#undef VALUE
#undef ENUM_END

/* The word of a value; NULL when the number has none. */
#define ENUM(type) const char *type##_word(int value);
#define VALUE(type, name, word, number)
#define ENUM_END(type)
#include "proto/enums.def"
#undef ENUM
#undef VALUE
#undef ENUM_END

/* ---- the structs of messages.def ----
 * A NUMBER, INTEGER or DIGEST has has_<field> beside it; a TEXT, BYTES or NESTED is absent when NULL; a CHOICE when 0;
 * an array has n_<field>. A zeroed struct is a message with everything absent. */

#define MESSAGE(type, policy) struct type {
#define FLAG(m, field) bool field;
#define NUMBER(m, field, need, max)                                                                                    \
    uint64_t field;                                                                                                    \
    bool has_##field;
#define INTEGER(m, field, need)                                                                                        \
    int64_t field;                                                                                                     \
    bool has_##field;
#define TEXT(m, field, need, max) struct text field;
#define BYTES(m, field, need, max) struct bytes field;
#define DIGEST(m, field, need)                                                                                         \
    uint8_t field[DIGEST_SIZE];                                                                                        \
    bool has_##field;
#define CHOICE(m, field, need, type) enum type field;
#define TEXTS(m, field, max_items, max)                                                                                \
    struct text *field;                                                                                                \
    size_t n_##field;
#define INTEGERS(m, field, max_items)                                                                                  \
    int64_t *field;                                                                                                    \
    size_t n_##field;
#define NESTED(m, field, need, type) struct type *field;
#define LIST(m, field, max_items, type)                                                                                \
    struct type *field;                                                                                                \
    size_t n_##field;
#define MESSAGE_END(type)                                                                                              \
    }                                                                                                                  \
    ;
#include "proto/messages.def"
#undef MESSAGE
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
#undef MESSAGE_END

/* ---- what the table knows of a message ---- */

enum field_kind {
    FIELD_FLAG,
    FIELD_NUMBER,
    FIELD_INTEGER,
    FIELD_TEXT,
    FIELD_BYTES,
    FIELD_DIGEST,
    FIELD_CHOICE,
    FIELD_TEXTS,
    FIELD_INTEGERS,
    FIELD_NESTED,
    FIELD_LIST,
};

struct word {
    const char *word;
    int value;
};

struct message_type;

struct message_field {
    const char *name;
    size_t name_size;
    enum field_kind kind;
    bool needed;
    size_t offset; /* of the value in the struct */
    size_t extent; /* offset of has_<field> or n_<field> */
    uint64_t max;  /* largest number, or most bytes of one string */
    uint64_t max_items;
    const struct message_type *type; /* of NESTED and LIST */
    const struct word *words;        /* of CHOICE; ends with {NULL, 0} */
};

struct message_type {
    const char *name;
    bool strict;
    size_t size;
    size_t n_fields;
    const struct message_field *fields;
};

/* One descriptor per message: compile_request_type, … */
#define MESSAGE(type, policy) extern const struct message_type type##_type;
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
#define MESSAGE_END(type)
#include "proto/messages.def"
#undef MESSAGE
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
#undef MESSAGE_END

/* All descriptors, in the table's order; ends with NULL. For tests, fuzzing and documentation. */
extern const struct message_type *const message_types[];

/* Fill *ret (of the type's size) from a map. Everything that ret points to lives in `zone` or, BYTES, in what `map`
 * was unpacked from. On failure *ret is untouched and the error names field, value and limit.
 * `map` must have passed scan() first. */
int message_decode(const struct message_type *type, const msgpack_object *map, msgpack_zone *zone, void *ret,
                   struct error *error);

/* Append the message as a map. Absent fields are not written. The result is canonical: fields in the table's order,
 * shortest integers; equal messages give equal bytes. A write that fails is the packer's to remember (proto/pack.h). */
void message_encode(const struct message_type *type, const void *message, msgpack_packer *packer);

/* Whether two messages hold the same values. */
bool message_equal(const struct message_type *type, const void *a, const void *b);

/* Whether a field is present, and the word of a CHOICE (NULL when the number has none). */
bool message_has(const struct message_field *field, const void *message);
/* The size of one item of TEXTS, INTEGERS or LIST. */
size_t message_item_size(const struct message_field *field);
const char *message_word(const struct message_field *field, int value);

/* Print as JSON; digests in hex, other bytes as {"bytes": n}. indent < 0 prints one line. */
void message_print(const struct message_type *type, const void *message, FILE *out, int indent);

/* Append the message as packed bytes: what a frame carries and what the database stores. -1 when memory ran out; the
 * buffer then holds what it held before. */
int message_pack(const struct message_type *type, const void *message, msgpack_sbuffer *out);

/* And back. `bytes` must have passed scan() (envelope_read does that for a whole frame), be exactly one value, and
 * outlive *ret, whose BYTES point into it. Contract of message_decode. */
int message_parse(const struct message_type *type, const uint8_t *bytes, size_t size, msgpack_zone *zone, void *ret,
                  struct error *error);

/* ---- methods ---- */

enum method {
    METHOD_UNKNOWN = 0,
#define METHOD(name, wire, where, request, reply) METHOD_##name,
#include "proto/methods.def"
#undef METHOD
    METHOD_COUNT,
};

/* Where a method is called: on the daemon's socket, or on a direct channel. */
enum method_where {
    METHOD_DAEMON = 1,
    METHOD_CHANNEL = 2,
};

struct method_info {
    const char *name;
    enum method_where where;
    const struct message_type *request;
    const struct message_type *reply;
};

/* Indexed by enum method; [0] is zeroed. */
extern const struct method_info methods[METHOD_COUNT];

#endif
