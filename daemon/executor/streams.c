#include "daemon/executor/streams.h"

#include <stdlib.h>

int streams_init(struct streams *streams, struct backend *backend, struct error *error)
{
    struct stream *first;
    *streams = (struct streams){.backend = backend};
    return streams_create(streams, 0, &first, error);
}

void streams_finish(struct streams *streams)
{
    while (streams->by_number)
        streams_remove(streams, streams->by_number);
}

int streams_create(struct streams *streams, int64_t priority, struct stream **ret, struct error *error)
{
    struct backend *backend = streams->backend;
    if (HASH_COUNT(streams->by_number) >= LIMIT_HANDLES)
        return error_set(error, STATUS_BUSY, "the channel has %u streams, the limit", LIMIT_HANDLES);
    struct stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a stream");
    if (backend->ops->stream_create(backend, priority, &stream->device, error) < 0) {
        free(stream);
        return -1;
    }
    stream->number = streams->next++;
    HASH_ADD(hh, streams->by_number, number, sizeof stream->number, stream);
    *ret = stream;
    return 0;
}

struct stream *streams_find(const struct streams *streams, uint64_t number, struct error *error)
{
    struct stream *stream;
    HASH_FIND(hh, streams->by_number, &number, sizeof number, stream);
    if (stream && !stream->destroyed)
        return stream;
    error_set(error, STATUS_UNKNOWN_HANDLE, "stream: the channel has none with number %llu",
              (unsigned long long)number);
    return NULL;
}

void streams_remove(struct streams *streams, struct stream *stream)
{
    struct backend *backend = streams->backend;
    HASH_DEL(streams->by_number, stream);
    if (stream->scratch.size)
        backend->ops->release(backend, &stream->scratch);
    backend->ops->stream_destroy(stream->device);
    free(stream);
}
