#include "daemon/executor/host/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/executor/host/jobs.h"

struct host_pool {
    struct host_pool_options options;
    unsigned n;
    pthread_t *threads;
    pthread_mutex_t lock;
    pthread_cond_t posted;  /* jobs has something to do, or the end has come */
    pthread_cond_t drained; /* no job is left */
    struct host_job *jobs;  /* with blocks to begin, a ring; the next one to serve */
    unsigned n_jobs;        /* that have not ended */
    bool ending;
};

/* ---- the ring of jobs ---- */

static void add(struct host_pool *pool, struct host_job *job)
{
    if (pool->jobs) {
        job->next = pool->jobs;
        job->previous = pool->jobs->previous;
        job->previous->next = job->next->previous = job;
    } else {
        job->next = job->previous = job;
        pool->jobs = job;
    }
}

static void take_out(struct host_pool *pool, struct host_job *job)
{
    job->previous->next = job->next;
    job->next->previous = job->previous;
    if (pool->jobs == job)
        pool->jobs = job->next == job ? NULL : job->next;
}

/* A block of the next job in the ring, so that no job waits for another's end. With the lock. */
static bool take_block(struct host_pool *pool, struct host_job **ret_job, unsigned long long *ret_block)
{
    struct host_job *job = pool->jobs;
    if (!job)
        return false;
    *ret_job = job;
    *ret_block = job->begun++;
    pool->jobs = job->next;
    if (job->begun == job->blocks)
        take_out(pool, job);
    return true;
}

/* One block is done. With the lock; true: it was the last. */
static bool finish_block(struct host_pool *pool, struct host_job *job, bool good)
{
    if (!good && job->begun < job->blocks) {
        take_out(pool, job); /* no more of it */
        job->blocks = job->begun;
    }
    job->ended++;
    return job->ended == job->blocks;
}

/* ---- threads ---- */

static void *serve(void *data)
{
    struct host_pool *pool = data;
    struct host_runner *runner = NULL;
    struct host_job *job;
    unsigned long long block;
    struct error error;
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (!pool->jobs && !pool->ending)
            pthread_cond_wait(&pool->posted, &pool->lock);
        if (!take_block(pool, &job, &block))
            break;
        pthread_mutex_unlock(&pool->lock);
        if (!runner && host_runner_create(&runner, &error) < 0) {
            fprintf(stderr, "fusiond-executor: %s\n", error.text);
            abort(); /* an executor without memory for stacks is of no use, and is replaced */
        }
        bool good = job->run(job, runner, block);
        pthread_mutex_lock(&pool->lock);
        if (!finish_block(pool, job, good))
            continue;
        pthread_mutex_unlock(&pool->lock);
        job->done(job);
        pthread_mutex_lock(&pool->lock);
        if (--pool->n_jobs == 0)
            pthread_cond_broadcast(&pool->drained);
    }
    pthread_mutex_unlock(&pool->lock);
    host_runner_destroy(runner);
    return NULL;
}

void host_pool_post(struct host_pool *pool, struct host_job *job)
{
    pthread_mutex_lock(&pool->lock);
    pool->n_jobs++;
    add(pool, job);
    if (job->blocks > 1)
        pthread_cond_broadcast(&pool->posted);
    else
        pthread_cond_signal(&pool->posted);
    pthread_mutex_unlock(&pool->lock);
}

void host_pool_began(struct host_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->n_jobs++;
    pthread_mutex_unlock(&pool->lock);
}

void host_pool_ended(struct host_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    if (--pool->n_jobs == 0)
        pthread_cond_broadcast(&pool->drained);
    pthread_mutex_unlock(&pool->lock);
}

void host_pool_print(const struct host_pool *pool, const char *text, size_t size)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    if (pool->options.print)
        pool->options.print(pool->options.print_context, text, size);
    else
        fwrite(text, 1, size, stdout);
    pthread_mutex_unlock(&lock);
}

/* ---- life ---- */

static unsigned available_cpus(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
}

int host_pool_create(const struct host_pool_options *options, struct host_pool **ret, struct error *error)
{
    unsigned n = options->threads ? options->threads : available_cpus();
    struct host_pool *pool = calloc(1, sizeof *pool);
    if (!pool || !(pool->threads = calloc(n, sizeof *pool->threads))) {
        free(pool);
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a pool of %u threads", n);
    }
    pool->options = *options;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->posted, NULL);
    pthread_cond_init(&pool->drained, NULL);
    while (pool->n < n) {
        int failed = pthread_create(&pool->threads[pool->n], NULL, serve, pool);
        if (failed) {
            host_pool_destroy(pool);
            return error_set_errno(error, STATUS_OUT_OF_MEMORY, failed, "thread %u of a pool of %u", pool->n + 1, n);
        }
        pool->n++;
    }
    *ret = pool;
    return 0;
}

void host_pool_destroy(struct host_pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    while (pool->n_jobs > 0)
        pthread_cond_wait(&pool->drained, &pool->lock);
    pool->ending = true;
    pthread_cond_broadcast(&pool->posted);
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; i < pool->n; i++)
        pthread_join(pool->threads[i], NULL);
    pthread_mutex_destroy(&pool->lock);
    pthread_cond_destroy(&pool->posted);
    pthread_cond_destroy(&pool->drained);
    free(pool->threads);
    free(pool);
}

unsigned host_pool_threads(const struct host_pool *pool)
{
    return pool->n;
}
