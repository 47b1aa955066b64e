/* The whole program of a kernel: the daemon's own texts in place of the lines that include them. */
#include <stdlib.h>
#include <string.h>

#include "client/connection.h"
#include "client/error.h"
#include "kernels_db/kernel_key.h"

struct fusiond_source {
    char *text; /* NULL: the daemon does not know it */
    bool changed;
};

struct expansion {
    const struct kernel_source_reply *reply;
    bool *written; /* one per file */
    FILE *out;
};

/* The file that the line includes; -1 when it includes none of them. */
static int file_of(const struct expansion *expansion, const char *line, size_t size)
{
    const char *at = line, *end = line + size;
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    if (at == end || *at != '#')
        return -1;
    const char *open = memchr(at, '"', (size_t)(end - at));
    const char *close = open ? memchr(open + 1, '"', (size_t)(end - open - 1)) : NULL;
    if (!close || !memmem(at, (size_t)(open - at), "include", 7))
        return -1;
    for (size_t i = 0; i < expansion->reply->n_files; i++) {
        struct text name = expansion->reply->files[i].name;
        if ((size_t)(close - open - 1) == name.size && memcmp(open + 1, name.at, name.size) == 0)
            return (int)i;
    }
    return -1;
}

/* Each file once, where it is included first: all of them do nothing the second time. They nest as deep as there are
 * files. */
static void expand(struct expansion *expansion, struct text text)
{
    const char *line = text.at, *end = text.at + text.size;
    while (line < end) {
        const char *feed = memchr(line, '\n', (size_t)(end - line));
        size_t size = (size_t)((feed ? feed + 1 : end) - line);
        int file = file_of(expansion, line, size);
        if (file < 0) {
            fwrite(line, 1, size, expansion->out);
        } else if (!expansion->written[file]) {
            const struct source_file *own = &expansion->reply->files[file];
            expansion->written[file] = true;
            fprintf(expansion->out, "/* ---- %s ---- */\n", own->name.at);
            expand(expansion, own->text);
            fprintf(expansion->out, "/* ---- the end of %s ---- */\n", own->name.at);
        }
        line += size;
    }
}

static int write_whole(const struct kernel_source_reply *reply, char **ret, struct error *error)
{
    struct expansion expansion = {.reply = reply, .written = calloc(reply->n_files + 1, sizeof *expansion.written)};
    size_t size = 0;
    char *text = NULL;
    expansion.out = expansion.written ? open_memstream(&text, &size) : NULL;
    bool good = expansion.out != NULL;
    if (good) {
        expand(&expansion, reply->program);
        good = !ferror(expansion.out);
        good = fclose(expansion.out) == 0 && good;
    }
    free(expansion.written);
    if (!good) {
        free(text);
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a program");
    }
    *ret = text;
    return 0;
}

static int fetch(struct fusiond_connection *connection, const char *key, msgpack_zone *zone,
                 struct fusiond_source *source, struct error *error)
{
    struct kernel_source_request request = {.has_key = true};
    struct kernel_source_reply reply;
    if (key_from_hex(key, request.key) < 0)
        return error_set(error, STATUS_INVALID_FIELD, "key: \"%.80s\" is not %d hex digits", key, 2 * DIGEST_SIZE);
    if (connection_ask(connection, METHOD_KERNEL_SOURCE, &request, zone, &reply, error) < 0)
        return -1;
    source->changed = reply.changed;
    return reply.program.at ? write_whole(&reply, &source->text, error) : 0;
}

int fusiond_kernel_source(struct fusiond_connection *connection, const char *key, struct fusiond_source **ret,
                          struct fusiond_error *ret_error)
{
    struct error error = {0};
    int result = -1;
    struct fusiond_source *source = calloc(1, sizeof *source);
    msgpack_zone *zone = msgpack_zone_new(4096);
    if (source && zone)
        result = fetch(connection, key, zone, source, &error);
    else
        error_set(&error, STATUS_OUT_OF_MEMORY, "no memory for a program");
    if (zone)
        msgpack_zone_free(zone);
    if (result < 0)
        fusiond_source_destroy(source);
    else
        *ret = source;
    return error_export(result, &error, ret_error);
}

void fusiond_source_destroy(struct fusiond_source *source)
{
    if (!source)
        return;
    free(source->text);
    free(source);
}

const char *fusiond_source_text(const struct fusiond_source *source)
{
    return source->text;
}

bool fusiond_source_changed(const struct fusiond_source *source)
{
    return source->changed;
}
