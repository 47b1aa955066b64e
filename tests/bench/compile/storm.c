/* Clients at once, each in a thread with a connection of its own. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "tests/bench/compile/compile.h"

#define MAX_CLIENTS 256

struct work {
    const struct own_daemon *daemon;
    const struct program *program;
    unsigned first;
    atomic_int left;
};

static void *run_client(void *data)
{
    struct work *work = data;
    struct fusiond_connection *connection = own_daemon_connect(work->daemon);
    int i;
    while ((i = atomic_fetch_sub(&work->left, 1)) > 0)
        cold_compile(connection, work->program, work->first + (unsigned)i, 0, NULL);
    fusiond_close(connection);
    return NULL;
}

double storm(const struct own_daemon *daemon, unsigned clients, unsigned count, const struct program *program)
{
    pthread_t threads[MAX_CLIENTS];
    struct work work = {daemon, program, next_number(), (int)count};
    for (unsigned i = 0; i < count; i++)
        next_number();
    if (clients > MAX_CLIENTS)
        die("%u clients are above the limit of %d", clients, MAX_CLIENTS);
    uint64_t start = now_ns();
    for (unsigned i = 0; i < clients; i++)
        if (pthread_create(&threads[i], NULL, run_client, &work) != 0)
            die("no thread for a client");
    for (unsigned i = 0; i < clients; i++)
        pthread_join(threads[i], NULL);
    return (double)(now_ns() - start) / 1e9;
}
