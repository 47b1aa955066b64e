#include "proto/pack.h"

/* Once a write has failed nothing more is written, or the bytes after the gap would pass for a message. */
static int on_write(void *data, const char *bytes, size_t size)
{
    struct pack *pack = data;
    if (!pack->failed && msgpack_sbuffer_write(pack->out, bytes, size) < 0)
        pack->failed = true;
    return pack->failed ? -1 : 0;
}

void pack_begin(struct pack *pack, msgpack_sbuffer *out)
{
    pack->out = out;
    pack->start = out->size;
    pack->failed = false;
    msgpack_packer_init(&pack->packer, pack, on_write);
}

int pack_end(struct pack *pack)
{
    if (!pack->failed)
        return 0;
    pack->out->size = pack->start;
    return -1;
}
