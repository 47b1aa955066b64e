#include "client/kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "client/error.h"
#include "kernels_db/kernel_key.h"

/* ---- from a reply ---- */

/* Map a memfd that must be sealed: nobody may change or shorten what is being read. */
static int map_part(const char *what, int fd, uint64_t size, struct part *ret, struct error *error)
{
    struct stat status;
    int needed = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & needed) != needed)
        return error_set(error, STATUS_MALFORMED, "the daemon's %s is not in a sealed memfd", what);
    if (fstat(fd, &status) < 0 || status.st_size < 0 || (uint64_t)status.st_size != size || size == 0)
        return error_set(error, STATUS_MALFORMED, "the daemon's %s has %lld bytes in its memfd and should have %llu",
                         what, (long long)status.st_size, (unsigned long long)size);
    /* Private: older kernels refuse a shared mapping of a write-sealed file that is open for writing. */
    void *map = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return error_set_errno(error, STATUS_SYSTEM, errno, "mapping the %s of %llu bytes", what,
                               (unsigned long long)size);
    *ret = (struct part){map, size, map};
    return 0;
}

static int find_part(const char *what, struct bytes inline_bytes, bool has_fd, uint64_t fd_index, bool has_size,
                     uint64_t size, const struct socket_fds *fds, struct part *ret, struct error *error)
{
    if (inline_bytes.at) {
        *ret = (struct part){inline_bytes.at, inline_bytes.size, NULL};
        return 0;
    }
    if (!has_fd)
        return 0;
    if (fd_index >= fds->n || !has_size)
        return error_set(error, STATUS_MALFORMED, "the daemon's %s is in file descriptor %llu of %zu", what,
                         (unsigned long long)fd_index, fds->n);
    return map_part(what, fds->fds[fd_index], size, ret, error);
}

static int find_parts(struct fusiond_connection *connection, uint64_t declared, struct fusiond_kernel *kernel,
                      struct error *error)
{
    const struct kernel *message = &kernel->message;
    if (channel_expect_fds(&connection->channel, declared, error) < 0)
        return -1;
    int result = find_part("image", message->image, message->has_image_fd, message->image_fd, true, message->image_size,
                           &connection->channel.fds, &kernel->image, error);
    if (result == 0)
        result = find_part("PTX", message->ptx, message->has_ptx_fd, message->ptx_fd, message->has_ptx_size,
                           message->ptx_size, &connection->channel.fds, &kernel->ptx, error);
    socket_fds_close(&connection->channel.fds);
    return result;
}

static int decode(struct fusiond_kernel *kernel, enum method method, struct bytes body, uint64_t *ret_fds,
                  struct error *error)
{
    if (method == METHOD_COMPILE) {
        struct compile_reply reply;
        if (message_parse(&compile_reply_type, body.at, body.size, kernel->zone, &reply, error) < 0)
            return -1;
        kernel->message = *reply.kernel;
        kernel->outcome = reply.outcome;
        kernel->stored = reply.stored;
        kernel->queue_ns = reply.queue_ns;
        kernel->compile_ns = reply.compile_ns;
        kernel->overridden = reply.overridden;
        kernel->ordinal = reply.ordinal;
        kernel->notes = reply.notes;
        kernel->n_notes = reply.n_notes;
        *ret_fds = reply.fds;
        return 0;
    }
    struct kernel_get_reply reply;
    if (message_parse(&kernel_get_reply_type, body.at, body.size, kernel->zone, &reply, error) < 0)
        return -1;
    kernel->message = *reply.kernel;
    kernel->outcome = reply.outcome;
    *ret_fds = reply.fds;
    return 0;
}

int kernel_of_reply(struct fusiond_connection *connection, enum method method, struct reply *reply,
                    struct fusiond_kernel **ret, struct error *error)
{
    uint64_t declared = 0;
    struct fusiond_kernel *kernel = calloc(1, sizeof *kernel);
    if (!kernel || !(kernel->zone = msgpack_zone_new(4096))) {
        error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a kernel");
        goto fail;
    }
    if (channel_keep(&connection->channel, reply, &kernel->frame, error) < 0)
        goto fail;
    if (decode(kernel, method, reply->body, &declared, error) < 0) {
        error_wrap(error, "the daemon's answer to %s", methods[method].name);
        goto fail;
    }
    if (find_parts(connection, declared, kernel, error) < 0)
        goto fail;
    key_to_hex(kernel->message.key, kernel->key);
    *ret = kernel;
    return 0;
fail:
    socket_fds_close(&connection->channel.fds);
    fusiond_kernel_destroy(kernel);
    return -1;
}

void fusiond_kernel_destroy(struct fusiond_kernel *kernel)
{
    if (!kernel)
        return;
    if (kernel->image.map)
        munmap(kernel->image.map, kernel->image.size);
    if (kernel->ptx.map)
        munmap(kernel->ptx.map, kernel->ptx.size);
    if (kernel->zone)
        msgpack_zone_free(kernel->zone);
    free(kernel->frame.bytes);
    free(kernel);
}

int fusiond_kernel_get(struct fusiond_connection *connection, const char *key, unsigned parts,
                       struct fusiond_kernel **ret, struct fusiond_error *ret_error)
{
    struct error error = {0};
    struct reply reply;
    struct kernel_get_request request = {
        .has_key = true,
        .with_image = parts & FUSIOND_IMAGE,
        .with_ptx = parts & FUSIOND_PTX,
        .with_log = parts & FUSIOND_LOG,
        .with_code = parts & FUSIOND_CODE,
        .with_details = parts & FUSIOND_DETAILS,
    };
    int result;
    if (key_from_hex(key, request.key) < 0)
        result = error_set(&error, STATUS_INVALID_FIELD, "key: \"%.80s\" is not %d hex digits", key, 2 * DIGEST_SIZE);
    else
        result = connection_call(connection, METHOD_KERNEL_GET, &request, NULL, 0, &reply, &error);
    if (result == 0)
        result = kernel_of_reply(connection, METHOD_KERNEL_GET, &reply, ret, &error);
    return error_export(result, &error, ret_error);
}

/* ---- what it holds ---- */

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

const char *fusiond_kernel_key(const struct fusiond_kernel *kernel)
{
    return kernel->key;
}

const char *fusiond_kernel_target(const struct fusiond_kernel *kernel)
{
    return kernel->message.target.at;
}

const char *fusiond_kernel_label(const struct fusiond_kernel *kernel)
{
    return or_empty(kernel->message.label.at);
}

const char *fusiond_kernel_compiler(const struct fusiond_kernel *kernel)
{
    return kernel->message.compiler.at;
}

const char *fusiond_kernel_image_kind(const struct fusiond_kernel *kernel)
{
    return or_empty(image_kind_word((int)kernel->message.image_kind));
}

const char *fusiond_kernel_index_type(const struct fusiond_kernel *kernel)
{
    return or_empty(index_type_word((int)kernel->message.index_type));
}

const char *fusiond_kernel_outcome(const struct fusiond_kernel *kernel)
{
    return or_empty(outcome_word((int)kernel->outcome));
}

bool fusiond_kernel_stored(const struct fusiond_kernel *kernel)
{
    return kernel->stored;
}

uint64_t fusiond_kernel_compile_ns(const struct fusiond_kernel *kernel)
{
    return kernel->compile_ns;
}

uint64_t fusiond_kernel_queue_ns(const struct fusiond_kernel *kernel)
{
    return kernel->queue_ns;
}

const char *fusiond_kernel_overridden(const struct fusiond_kernel *kernel)
{
    return or_empty(kernel->overridden.at);
}

unsigned fusiond_kernel_ordinal(const struct fusiond_kernel *kernel)
{
    return (unsigned)kernel->ordinal;
}

size_t fusiond_kernel_notes(const struct fusiond_kernel *kernel)
{
    return kernel->n_notes;
}

const char *fusiond_kernel_note(const struct fusiond_kernel *kernel, size_t index)
{
    return kernel->notes[index].at;
}

const void *fusiond_kernel_image(const struct fusiond_kernel *kernel, size_t *ret_size)
{
    if (ret_size)
        *ret_size = kernel->image.size;
    return kernel->image.at;
}

const void *fusiond_kernel_ptx(const struct fusiond_kernel *kernel, size_t *ret_size)
{
    if (ret_size)
        *ret_size = kernel->ptx.size;
    return kernel->ptx.at;
}

const char *fusiond_kernel_log(const struct fusiond_kernel *kernel)
{
    return kernel->message.log.at;
}

const char *fusiond_kernel_code(const struct fusiond_kernel *kernel)
{
    return kernel->message.code.at;
}

size_t fusiond_kernel_entries(const struct fusiond_kernel *kernel)
{
    return kernel->message.n_entries;
}

struct fusiond_entry fusiond_kernel_entry(const struct fusiond_kernel *kernel, size_t index)
{
    const struct kernel_entry *entry = &kernel->message.entries[index];
#define KNOWN(field) (entry->has_##field ? (int64_t)entry->field : -1)
    return (struct fusiond_entry){
        .name = entry->name.at,
        .lowered = entry->lowered.at,
        .registers = KNOWN(registers),
        .stack_frame = KNOWN(stack_frame),
        .spill_stores = KNOWN(spill_stores),
        .spill_loads = KNOWN(spill_loads),
        .local_memory = KNOWN(local_memory),
        .shared_memory = KNOWN(shared_memory),
        .constant_memory = KNOWN(constant_memory),
    };
#undef KNOWN
}

size_t fusiond_kernel_warnings(const struct fusiond_kernel *kernel)
{
    return kernel->message.n_warnings;
}

const char *fusiond_kernel_warning(const struct fusiond_kernel *kernel, size_t index)
{
    return kernel->message.warnings[index].at;
}
