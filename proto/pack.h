/* Appending MessagePack to a growing buffer: a write that fails is remembered, and undone at the end. */
#ifndef PROTO_PACK_H
#define PROTO_PACK_H

#include <msgpack.h>
#include <stdbool.h>
#include <stddef.h>

struct pack {
    msgpack_packer packer; /* for msgpack_pack_… and message_encode, whose results need no look */
    msgpack_sbuffer *out;
    size_t start; /* what the buffer held before */
    bool failed;
};

/* The pack must stay where it is until pack_end. */
void pack_begin(struct pack *pack, msgpack_sbuffer *out);
/* 0 when all was written; -1 when memory ran out: the buffer then holds what it held before. */
int pack_end(struct pack *pack);

#endif
