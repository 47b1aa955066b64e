#include "client/blob.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/error.h"

static int write_all(int fd, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t n = write(fd, bytes, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        bytes += n;
        size -= (size_t)n;
    }
    return 0;
}

/* A memfd with these bytes that nobody can change any more. */
static int sealed_memfd(const void *bytes, size_t size, int *ret, struct error *error)
{
    int fd = memfd_create("fusiond-blob", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return error_set_errno(error, STATUS_SYSTEM, errno, "memfd_create");
    if (write_all(fd, bytes, size) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
        error_set_errno(error, STATUS_SYSTEM, errno, "a memfd of %zu bytes", size);
        close(fd);
        return -1;
    }
    *ret = fd;
    return 0;
}

int blob_put(struct fusiond_connection *connection, const void *bytes, size_t size, uint8_t ret_digest[DIGEST_SIZE],
             struct error *error)
{
    struct blob_put_request request = {0};
    struct blob_put_reply reply;
    struct reply answer;
    int fd = -1;
    if (size > LIMIT_BLOB)
        return error_set(error, STATUS_INVALID_FIELD, "bytes: %zu bytes are above the limit of %u", size, LIMIT_BLOB);
    if (size <= LIMIT_INLINE) {
        request.bytes = (struct bytes){size ? bytes : (const void *)"", size};
    } else {
        if (sealed_memfd(bytes, size, &fd, error) < 0)
            return -1;
        request.size = size;
        request.has_size = true;
        request.fds = 1;
        request.has_fds = true;
    }
    int result = connection_call(connection, METHOD_BLOB_PUT, &request, &fd, fd >= 0, &answer, error);
    if (fd >= 0)
        close(fd);
    if (result < 0 || channel_expect_fds(&connection->channel, 0, error) < 0)
        return -1;
    msgpack_zone *zone = msgpack_zone_new(512);
    if (!zone)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for an answer");
    result = message_parse(&blob_put_reply_type, answer.body.at, answer.body.size, zone, &reply, error);
    msgpack_zone_free(zone);
    if (result < 0)
        return error_wrap(error, "the daemon's answer to blob.put");
    memcpy(ret_digest, reply.digest, DIGEST_SIZE);
    return 0;
}

int fusiond_blob_put(struct fusiond_connection *connection, const void *bytes, size_t size, uint8_t ret_digest[32],
                     struct fusiond_error *ret_error)
{
    struct error error = {0};
    return error_export(blob_put(connection, bytes, size, ret_digest, &error), &error, ret_error);
}
