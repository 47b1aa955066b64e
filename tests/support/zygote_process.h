/* Tests: a real zygote of fusiond-compiler, and the workers that it forks. */
#ifndef TESTS_SUPPORT_ZYGOTE_PROCESS_H
#define TESTS_SUPPORT_ZYGOTE_PROCESS_H

#include "tests/support/compiler_process.h"

struct zygote_process {
    struct compiler_process process;
    char parent[64]; /* the folder in which its own is */
    char folder[96];
    uint64_t forks;
};

/* Start one and give it its setup; *ret_ready says what came of it, in its error too when it died. Skips the calling
 * Criterion test where there is no NVRTC that can. */
void zygote_process_start(struct zygote_process *ret, const char *prefix, const struct worker_job *sample,
                          msgpack_zone *zone, struct zygote_ready *ret_ready);

/* Fork a worker: it takes one job by compiler_process_compile(). Its pid is the zygote's to reap:
 * compiler_process_finish() only closes. */
void zygote_process_fork(struct zygote_process *zygote, msgpack_zone *zone, struct compiler_process *ret,
                         pid_t *ret_pid);

/* Wait for the end of the next worker that ends. */
struct zygote_exited zygote_process_exited(struct zygote_process *zygote, msgpack_zone *zone);

/* Kill it, reap it, and remove its folders. */
void zygote_process_finish(struct zygote_process *zygote);

/* A header that takes a compiler a while, as "heavy.h", and the line that includes it. */
#define HEAVY_PREFIX "#include \"heavy.h\"\n"
struct job_header heavy_header(msgpack_zone *zone);

#endif
