#include "daemon/compiler/includes.h"

#include <string.h>

#include "preamble/preamble.h"

static int add_header(const struct job_header *header, msgpack_zone *zone, struct includes *includes,
                      struct error *error)
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

static bool taken(const struct includes *includes, const char *name)
{
    for (size_t i = 0; i < includes->n; i++)
        if (strcmp(includes->names[i], name) == 0)
            return true;
    return false;
}

/* All of them, whatever the program needs: the compiler copies some tens of kilobytes. A header of the client's in the
 * place of a module is the client's wish, and in the kernel's key. */
static void add_modules(struct includes *includes)
{
    const struct preamble_module *modules = preamble_modules();
    for (size_t i = 0; i < preamble_count; i++) {
        if (taken(includes, modules[i].include))
            continue;
        includes->texts[includes->n] = modules[i].text;
        includes->names[includes->n++] = modules[i].include;
    }
}

int includes_collect(const struct job_header *headers, size_t n_headers, msgpack_zone *zone, struct includes *ret,
                     struct error *error)
{
    size_t most = n_headers + preamble_count;
    struct includes includes = {0};
    includes.texts = msgpack_zone_malloc(zone, most * sizeof *includes.texts);
    includes.names = msgpack_zone_malloc(zone, most * sizeof *includes.names);
    if (includes.texts == NULL || includes.names == NULL)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the headers");
    for (size_t i = 0; i < n_headers; i++)
        if (add_header(&headers[i], zone, &includes, error) < 0)
            return -1;
    add_modules(&includes);
    *ret = includes;
    return 0;
}
