#include "daemon/compiler/includes.h"

#include <string.h>

static int add_header(const struct header *header, msgpack_zone *zone, struct includes *includes, struct error *error)
{
    if (header->bytes.at == NULL)
        return error_set(error, STATUS_INVALID_FIELD, "header \"%.200s\": its bytes are missing", header->name.at);
    if (header->bytes.size > 0 && memchr(header->bytes.at, '\0', header->bytes.size) != NULL)
        return error_set(
            error, STATUS_INVALID_FIELD, "header \"%.200s\": a NUL byte at offset %zu", header->name.at,
            (size_t)((const uint8_t *)memchr(header->bytes.at, '\0', header->bytes.size) - header->bytes.at));
    char *text = msgpack_zone_malloc(zone, header->bytes.size + 1);
    if (text == NULL)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the headers");
    memcpy(text, header->bytes.at, header->bytes.size);
    text[header->bytes.size] = '\0';
    includes->texts[includes->n] = text;
    includes->names[includes->n++] = header->name.at;
    return 0;
}

int includes_collect(const struct header *headers, size_t n_headers, msgpack_zone *zone, struct includes *ret,
                     struct error *error)
{
    size_t most = n_headers + 1;
    struct includes includes = {0};
    includes.texts = msgpack_zone_malloc(zone, most * sizeof *includes.texts);
    includes.names = msgpack_zone_malloc(zone, most * sizeof *includes.names);
    if (includes.texts == NULL || includes.names == NULL)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the headers");
    for (size_t i = 0; i < n_headers; i++)
        if (add_header(&headers[i], zone, &includes, error) < 0)
            return -1;
    *ret = includes;
    return 0;
}
