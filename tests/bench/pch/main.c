/*
 * pch-proof: whether a forked child can use its parent's precompiled headers with this NVRTC, what it gains, and
 * whether the code stays the same. docs/zygotes.md has what it found.
 *
 *   pch-proof [--nvrtc FILE] [--include FOLDER]… [--target sm_90a] [--work FOLDER]
 *
 * NVRTC is loaded in child processes only, each of which plays one part; what they find lies in shared memory.
 */
#include <errno.h>
#include <ftw.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/pch/programs.h"
#include "tests/bench/pch/rtc_worker.h"

#define AT_ONCE 8

/* One set's findings. */
struct findings {
    struct rtc_outcome bare[PROGRAMS];      /* a warm process without precompiled headers */
    struct rtc_outcome automatic[PROGRAMS]; /* the compiler's own, within one process */
    struct rtc_outcome forked[PROGRAMS];    /* a child each */
    struct rtc_outcome crowd[AT_ONCE];      /* children at once */
    struct rtc_outcome create;
    double crowd_ms;
    long header_kb;
    long zygote_pss_kb, zygote_private_kb;
};

/* What else a child may want of a header made for something else. */
struct variation {
    const char *name;
    const char *options[4];
    const char *target;
};

static const struct variation variations[] = {
    {"the same", {NULL}, NULL},
    {"--maxrregcount=64", {"--maxrregcount=64", NULL}, NULL},
    {"-lineinfo", {"-lineinfo", NULL}, NULL},
    {"-G", {"-G", NULL}, NULL},
    {"--fmad=false", {"--fmad=false", NULL}, NULL},
    {"--use_fast_math", {"--use_fast_math", NULL}, NULL},
    {"--ptxas-options=-O1", {"--ptxas-options=-O1", NULL}, NULL},
    {"-DANOTHER=1", {"-DANOTHER=1", NULL}, NULL},
    {"--std=c++20", {"--std=c++20", NULL}, NULL},
    {"another target", {NULL}, "sm_80"},
};
#define N_VARIATIONS (sizeof variations / sizeof variations[0])

static struct rtc_setup setup = {.target = "sm_90a"};
static const char *work = "/tmp";

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void *share(size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    return at;
}

static void place(char *ret, size_t size, const char *folder, const char *name, unsigned i)
{
    if ((size_t)snprintf(ret, size, "%s/%s%u.pch", folder, name, i) >= size)
        exit(1);
}

/* ---- the parts ---- */

static const char *const standard[] = {"--std=c++17", NULL};

static void play_bare(const struct program_set *set, struct rtc_outcome *ret)
{
    struct nvrtc nvrtc;
    rtc_load(&nvrtc, &setup);
    for (unsigned i = 0; i < PROGRAMS; i++)
        rtc_run(&nvrtc, &setup, program_text(set, i, 0), NULL, standard, &ret[i]);
}

static void play_automatic(const struct program_set *set, const char *folder, struct rtc_outcome *ret)
{
    struct nvrtc nvrtc;
    char dir[4200];
    snprintf(dir, sizeof dir, "--pch-dir=%s", folder);
    const char *options[] = {"--std=c++17", "--pch", "--pch-messages=true", dir, NULL};
    rtc_load(&nvrtc, &setup);
    for (unsigned i = 0; i < PROGRAMS; i++)
        rtc_run(&nvrtc, &setup, program_text(set, i, 1), NULL, options, &ret[i]);
}

/* A child compiles one program with the header in `file`. */
static void compile_forked(struct nvrtc *nvrtc, const char *file, const char *text, const struct variation *variation,
                           struct rtc_outcome *ret)
{
    char use[4200];
    const char *options[16] = {use, "--pch-messages=true", "--pch-verbose=true"};
    int n = 3, other_standard = variation && strncmp(variation->name, "--std", 5) == 0;
    struct rtc_setup own = setup;
    snprintf(use, sizeof use, "--use-pch=%s", file);
    if (!other_standard)
        options[n++] = "--std=c++17";
    for (int i = 0; variation && variation->options[i]; i++)
        options[n++] = variation->options[i];
    options[n] = NULL;
    if (variation && variation->target)
        own.target = variation->target;
    rtc_run(nvrtc, &own, text, NULL, options, ret);
}

static pid_t fork_child(struct nvrtc *nvrtc, const char *file, const char *text, const struct variation *variation,
                        struct rtc_outcome *ret)
{
    ret->code = -1;
    pid_t pid = fork();
    if (pid == 0) {
        compile_forked(nvrtc, file, text, variation, ret);
        _exit(0);
    }
    return pid;
}

static void reap(pid_t pid)
{
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

static void make_header(struct nvrtc *nvrtc, const struct program_set *set, const char *file, struct rtc_outcome *ret)
{
    char create[4200];
    const char *options[] = {"--std=c++17", create, "--pch-messages=true", NULL};
    snprintf(create, sizeof create, "--create-pch=%s", file);
    rtc_run(nvrtc, &setup, program_prefix(set), NULL, options, ret);
}

static void play_zygote(const struct program_set *set, const char *file, struct findings *ret,
                        struct rtc_outcome *ret_variations)
{
    struct nvrtc nvrtc;
    struct stat st;
    pid_t pids[AT_ONCE];
    rtc_load(&nvrtc, &setup);
    make_header(&nvrtc, set, file, &ret->create);
    ret->header_kb = stat(file, &st) == 0 ? (long)(st.st_size / 1024) : 0;
    for (unsigned i = 0; i < PROGRAMS; i++) {
        double started = now_ms();
        reap(fork_child(&nvrtc, file, program_text(set, i, 1), NULL, &ret->forked[i]));
        ret->forked[i].wall_ms = now_ms() - started;
    }
    double started = now_ms();
    for (unsigned i = 0; i < AT_ONCE; i++)
        pids[i] = fork_child(&nvrtc, file, program_text(set, i, 1), NULL, &ret->crowd[i]);
    for (unsigned i = 0; i < AT_ONCE; i++)
        reap(pids[i]);
    ret->crowd_ms = now_ms() - started;
    for (size_t i = 0; i < N_VARIATIONS; i++)
        reap(fork_child(&nvrtc, file, program_text(set, 0, 1), &variations[i], &ret_variations[i]));
    memory_of_self(&ret->zygote_pss_kb, &ret->zygote_private_kb);
}

/* A zygote that tells when it is ready, looks at its memory when all are, and stays until all have looked. */
static void play_one_of_many(const struct program_set *set, const char *file, int tell, int measure, int leave,
                             long *ret_pss_kb)
{
    struct nvrtc nvrtc;
    struct rtc_outcome outcome;
    char byte = 0;
    long private_kb;
    rtc_load(&nvrtc, &setup);
    make_header(&nvrtc, set, file, &outcome);
    if (write(tell, &byte, 1) != 1 || read(measure, &byte, 1) != 1)
        _exit(1);
    memory_of_self(ret_pss_kb, &private_kb);
    if (write(tell, &byte, 1) != 1 || read(leave, &byte, 1) != 1)
        _exit(1);
}

/* Zygotes that live at the same time: what they take together. */
static void play_many(unsigned n, const char *folder, long *ret_pss_kb)
{
    int tell[2], measure[2], leave[2];
    char bytes[AT_ONCE] = {0};
    long *pss = share(n * sizeof *pss);
    pid_t pids[AT_ONCE];
    if (pipe(tell) < 0 || pipe(measure) < 0 || pipe(leave) < 0)
        _exit(1);
    for (unsigned i = 0; i < n; i++) {
        pids[i] = fork();
        if (pids[i] != 0)
            continue;
        char file[4096];
        place(file, sizeof file, folder, "many", i);
        play_one_of_many(&program_sets[i % n_program_sets], file, tell[1], measure[0], leave[0], &pss[i]);
        _exit(0);
    }
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < n; i++)
            if (read(tell[0], bytes, 1) != 1)
                _exit(1);
        if (write(round == 0 ? measure[1] : leave[1], bytes, n) != (ssize_t)n)
            _exit(1);
    }
    for (unsigned i = 0; i < n; i++) {
        reap(pids[i]);
        *ret_pss_kb += pss[i];
    }
}

/* ---- the report ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of the successful ones, the first left out: it makes the header, or meets cold pages. */
static double median_ms(const struct rtc_outcome *outcomes, int wall)
{
    double times[PROGRAMS];
    size_t n = 0;
    for (unsigned i = 1; i < PROGRAMS; i++)
        if (outcomes[i].code == 0)
            times[n++] = wall ? outcomes[i].wall_ms : outcomes[i].ms;
    qsort(times, n, sizeof *times, by_value);
    return n ? times[n / 2] : 0;
}

static unsigned count_used(const struct rtc_outcome *outcomes)
{
    unsigned n = 0;
    for (unsigned i = 0; i < PROGRAMS; i++)
        n += outcomes[i].code == 0 && outcomes[i].used_pch;
    return n;
}

static unsigned count_same(const struct rtc_outcome *outcomes, const struct rtc_outcome *bare, bool variables)
{
    unsigned n = 0;
    for (unsigned i = 0; i < PROGRAMS; i++)
        n += outcomes[i].code == 0 && bare[i].code == 0 &&
             (variables ? outcomes[i].variables_digest == bare[i].variables_digest
                        : outcomes[i].code_digest == bare[i].code_digest);
    return n;
}

static void report(const struct program_set *set, const struct findings *found, const struct rtc_outcome *varied)
{
    double bare = median_ms(found->bare, 0), automatic = median_ms(found->automatic, 0),
           forked = median_ms(found->forked, 0), wall = median_ms(found->forked, 1);
    printf("\n%s: %u programs\n", set->name, PROGRAMS);
    for (unsigned i = 0; i < PROGRAMS; i++)
        if (found->bare[i].code) {
            printf("  program %u does not compile: %s\n", i, found->bare[i].log);
            break;
        }
    if (found->create.code || found->header_kb == 0)
        printf("  no header was made: result %d, %s\n", found->create.code, found->create.log);
    printf("  made in %.0f ms, %ld MB; zygote %ld MB PSS, a child dirties %ld MB\n", found->create.ms,
           found->header_kb / 1024, found->zygote_pss_kb / 1024, found->forked[1].private_kb / 1024);
    printf(
        "  p50: bare %.1f ms; own, within a process %.1f ms; forked child %.1f ms (fork to reaped %.1f ms): %.2fx of "
        "bare\n",
        bare, automatic, forked, wall, bare > 0 ? wall / bare : 0);
    printf("  header used: within a process %u, forked %u of %u\n", count_used(found->automatic),
           count_used(found->forked), PROGRAMS);
    printf("  the same as bare: code within a process %u, forked %u; variables %u, %u\n",
           count_same(found->automatic, found->bare, false), count_same(found->forked, found->bare, false),
           count_same(found->automatic, found->bare, true), count_same(found->forked, found->bare, true));
    printf("  %d children at once: %.0f ms\n", AT_ONCE, found->crowd_ms);
    for (size_t i = 0; i < N_VARIATIONS; i++) {
        const struct rtc_outcome *outcome = &varied[i];
        bool told = outcome->code > 0 || (outcome->code == 0 && !outcome->used_pch);
        printf("  with %-22s %s%.*s\n", variations[i].name,
               outcome->code == -1 ? "the child died"
               : outcome->code     ? "refused: "
               : outcome->used_pch ? "used"
                                   : "compiled without it: ",
               told ? (int)strcspn(outcome->log, "\n") : 0, outcome->log);
    }
    fflush(stdout);
}

/* ---- */

static pid_t begin(void)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) {
        perror("fork");
        exit(1);
    }
    return pid;
}

static void examine(const struct program_set *set, const char *folder)
{
    struct findings *found = share(sizeof *found);
    struct rtc_outcome *varied = share(N_VARIATIONS * sizeof *varied);
    char file[4096];
    pid_t pid;
    place(file, sizeof file, folder, "zygote", 0);
    if ((pid = begin()) == 0) {
        play_bare(set, found->bare);
        _exit(0);
    }
    reap(pid);
    if ((pid = begin()) == 0) {
        play_automatic(set, folder, found->automatic);
        _exit(0);
    }
    reap(pid);
    if ((pid = begin()) == 0) {
        play_zygote(set, file, found, varied);
        _exit(0);
    }
    reap(pid);
    report(set, found, varied);
    unlink(file);
}

static void tell_version(void)
{
    pid_t pid = begin();
    if (pid == 0) {
        struct nvrtc nvrtc;
        rtc_load(&nvrtc, &setup);
        printf("NVRTC %d.%d, %s, target %s\n", nvrtc.major, nvrtc.minor, nvrtc.path, setup.target);
        fflush(stdout);
        _exit(0);
    }
    int status;
    if (waitpid(pid, &status, 0) < 0 || status != 0)
        exit(1);
}

static void take_options(int argc, char **argv)
{
    static const struct option table[] = {{"nvrtc", required_argument, NULL, 'n'},
                                          {"include", required_argument, NULL, 'I'},
                                          {"target", required_argument, NULL, 't'},
                                          {"work", required_argument, NULL, 'w'},
                                          {0}};
    int letter;
    while ((letter = getopt_long(argc, argv, "", table, NULL)) != -1) {
        char *option;
        if (letter == 'n') {
            setup.nvrtc = optarg;
        } else if (letter == 't') {
            setup.target = optarg;
        } else if (letter == 'w') {
            work = optarg;
        } else if (letter == 'I' && setup.n_includes < 16 && asprintf(&option, "--include-path=%s", optarg) > 0) {
            setup.includes[setup.n_includes++] = option;
        } else {
            fprintf(stderr,
                    "usage: pch-proof [--nvrtc FILE] [--include FOLDER]... [--target sm_90a] [--work FOLDER]\n");
            exit(2);
        }
    }
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *at)
{
    (void)status, (void)kind, (void)at;
    return remove(path);
}

int main(int argc, char **argv)
{
    char folder[4096];
    long *pss = share(sizeof *pss);
    take_options(argc, argv);
    snprintf(folder, sizeof folder, "%s/pch-proof.XXXXXX", work);
    if (!mkdtemp(folder) || setenv("TMPDIR", folder, 1) < 0) {
        perror(folder);
        return 1;
    }
    tell_version();
    for (size_t i = 0; i < n_program_sets; i++)
        examine(&program_sets[i], folder);
    pid_t pid = begin();
    if (pid == 0) {
        play_many(AT_ONCE, folder, pss);
        _exit(0);
    }
    reap(pid);
    printf("\n%d zygotes, %zu sets of headers: %ld MB PSS together\n", AT_ONCE, n_program_sets, *pss / 1024);
    return nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS) ? 1 : 0;
}
