#include "daemon/kernel_source.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/compile/program_files.h"
#include "daemon/kernel_names.h"
#include "daemon/request.h"
#include "daemon/server.h"

/* The record's parts in one text, which is to be freed; absent when the record lacks them. NULL in *ret and -1 when
 * memory ran out. */
static int assemble(const struct kernel *kernel, char **ret, struct text *ret_program)
{
    *ret = NULL;
    *ret_program = kernel->program;
    if (kernel->program.at || !kernel->before.at || !kernel->behind.at || !kernel->code.at)
        return 0;
    const struct text parts[] = {kernel->before, kernel->code, kernel->behind};
    size_t size = parts[0].size + parts[1].size + parts[2].size, at = 0;
    char *program = malloc(size + 1);
    if (!program)
        return -1;
    for (size_t i = 0; i < 3; i++) {
        memcpy(program + at, parts[i].at, parts[i].size);
        at += parts[i].size;
    }
    program[at] = '\0';
    *ret = program;
    *ret_program = (struct text){program, size};
    return 0;
}

/* The names under which it was stored, in place of what the compiler saw. */
static int put_names(const struct kernel *kernel, msgpack_zone *zone, struct text *program, struct error *error)
{
    struct entry_names names;
    if (!program->at || kernel->n_renamed == 0)
        return 0;
    char *copy = msgpack_zone_malloc(zone, program->size + 1);
    if (!copy)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a program");
    if (kernel_names_stored(kernel, zone, &names, error) < 0)
        return -1;
    size_t size = entry_names_write(names, *program, copy);
    copy[size] = '\0';
    *program = (struct text){copy, size};
    return 0;
}

static void answer(struct conn *conn, uint32_t id, const struct kernel *kernel)
{
    struct source_file files[PROGRAM_FILES_MAX];
    uint8_t digest[DIGEST_SIZE];
    struct kernel_source_reply reply = {.files = files};
    struct error error;
    msgpack_zone zone;
    char *whole;
    if (assemble(kernel, &whole, &reply.program) < 0) {
        error_set(&error, STATUS_OUT_OF_MEMORY, "no memory for a program");
        conn_fail_with(conn, id, &error);
        return;
    }
    msgpack_zone_init(&zone, 1024);
    if (put_names(kernel, &zone, &reply.program, &error) < 0) {
        conn_fail_with(conn, id, &error);
        msgpack_zone_destroy(&zone);
        free(whole);
        return;
    }
    if (reply.program.at) {
        reply.n_files = program_files(reply.program, files);
        program_files_digest(reply.program, digest);
        reply.changed = !kernel->has_preamble || memcmp(digest, kernel->preamble, sizeof digest) != 0;
    }
    conn_reply(conn, id, METHOD_KERNEL_SOURCE, &reply, NULL, 0);
    msgpack_zone_destroy(&zone);
    free(whole);
}

static void on_got(struct kernel_get *get, const struct kernel_answer *found, const struct error *error)
{
    struct request *request = container_of(get, struct request, get);
    if (request->conn && found)
        answer(request->conn, request->id, &found->kernel->kernel);
    else if (request->conn)
        conn_fail_with(request->conn, request->id, error);
    request_destroy(request);
}

static int read_key(struct bytes params, uint64_t owner, struct kernel_get *ret, struct error *error)
{
    msgpack_zone zone;
    struct kernel_source_request source;
    msgpack_zone_init(&zone, 1024);
    int status = message_parse(&kernel_source_request_type, params.at, params.size, &zone, &source, error);
    msgpack_zone_destroy(&zone);
    if (status < 0)
        return -1;
    *ret = (struct kernel_get){.lookup.id.owner = owner, .done = on_got};
    memcpy(ret->lookup.id.key, source.key, sizeof ret->lookup.id.key);
    return 0;
}

void kernel_source(struct conn *conn, const struct envelope *envelope)
{
    struct server *server = conn->server;
    struct kernel_get get;
    struct kernel_answer found;
    struct error error;
    if (read_key(envelope->body, conn->uid, &get, &error) < 0) {
        conn_fail_with(conn, envelope->id, &error);
        return;
    }
    if (kernel_get_find(&get, server->store, &server->stats, &found)) {
        answer(conn, envelope->id, &found.kernel->kernel);
        return;
    }
    struct request *request = request_create(conn, envelope->id, METHOD_KERNEL_SOURCE);
    if (!request)
        return;
    request->get = get;
    if (kernel_get_look_up(&request->get, server->store, &server->stats, &error) < 0) {
        conn_fail_with(conn, envelope->id, &error);
        request_destroy(request);
    }
}
