/*
 * fusiond-transform: reads one transform_job from a socket, runs its program shut in, answers with a transform_result.
 * One process per run, so that nothing of a text is left for the next one.
 */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/compiler/channel.h"
#include "daemon/compiler/transform.h"
#include "daemon/compiler/worker.h"
#include "daemon/sandbox/sandbox.h"
#include "proto/envelope.h"

static int serve(struct channel *channel, msgpack_zone *zone, struct error *error)
{
    const uint8_t *frame;
    size_t size;
    struct transform_job job;
    struct transform_result result;
    msgpack_sbuffer out;
    int got = channel_read(channel, &frame, &size, error);
    if (got == 0)
        return WORKER_EXIT_DONE;
    if (got < 0 || envelope_read_message(frame, size, &transform_job_type, zone, &job, error) < 0)
        return WORKER_EXIT_CHANNEL;
    if (transform_run(&job, zone, &result, error) < 0)
        return error->code == STATUS_SYSTEM ? WORKER_EXIT_SYSTEM : WORKER_EXIT_MEMORY;
    msgpack_sbuffer_init(&out);
    int status = envelope_write_message(&out, &transform_result_type, &result);
    if (status < 0)
        error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a transform_result");
    else
        status = channel_write(channel, out.data, out.size, error);
    msgpack_sbuffer_destroy(&out);
    return status < 0 ? WORKER_EXIT_CHANNEL : WORKER_EXIT_DONE;
}

int main(int argc, char **argv)
{
    struct channel channel;
    struct error error = {0};
    msgpack_zone zone;
    int fd = 3;
    (void)argv;
    if (argc != 1) {
        fprintf(stderr,
                "usage: fusiond-transform\nA part of fusiond, which starts it with a socket as descriptor 3.\n");
        _exit(WORKER_EXIT_USAGE);
    }
    if (sandbox_follow_parent(fd) < 0)
        _exit(WORKER_EXIT_ORPHAN);
    if (sandbox_prepare(&fd, &error) < 0 || sodium_init() < 0 || !msgpack_zone_init(&zone, 65536)) {
        fprintf(stderr, "fusiond-transform: %s\n", error.code ? error.text : "it cannot start");
        _exit(WORKER_EXIT_SYSTEM);
    }
    channel_init(&channel, fd);
    int code = serve(&channel, &zone, &error);
    if (code != WORKER_EXIT_DONE)
        fprintf(stderr, "fusiond-transform: %s\n", error.text);
    msgpack_zone_destroy(&zone);
    channel_finish(&channel);
    _exit(code);
}
