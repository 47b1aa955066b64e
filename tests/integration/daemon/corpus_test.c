/*
 * Programs of many kinds, for several targets: what the service returns is the code that NVRTC alone makes of the same
 * program with the same arguments, section by section.
 *
 * tests/corpus/ holds the programs as templates (its README says how); tests/fusions/ has some more. A run takes a
 * sample: FUSIOND_SEED repeats one, FUSIOND_CORPUS=whole takes all of it, which is for running this program by hand.
 */
#include <criterion/criterion.h>
#include <elf.h>
#include <glob.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "daemon/compiler/toolkit.h"
#include "daemon/sandbox/sandbox.h"
#include "tests/integration/daemon/fixture.h"
#include "tests/support/rtc.h"

#define PROGRAMS 512
#define OPTIONS 6
/* In a sample; those with toolkit headers take a second or two. */
#define SAMPLE 30
#define SAMPLE_TOOLKIT 1

static const char *const targets[] = {"sm_75", "sm_80", "sm_90", "sm_90a", "sm_100"};
#define TARGETS (sizeof targets / sizeof targets[0])

struct program {
    char name[128];
    char *code;
    char entry[128];
    bool toolkit, preamble;
    int bits; /* of the index type, with the preamble */
    unsigned option;
};

static struct program programs[PROGRAMS];
static size_t n_programs;
static struct toolkit toolkit;
static bool has_toolkit;

/* ---- the corpus ---- */

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "re");
    cr_assert_not_null(file, "%s", path);
    char *text = calloc(1, 1u << 16);
    size_t n = fread(text, 1, (1u << 16) - 1, file);
    fclose(file);
    cr_assert_lt(n, (1u << 16) - 1, "%s is too long", path);
    return text;
}

/* The text with every $T, $N and $M replaced; values in that order. */
static char *fill_in(const char *text, const char *const values[3])
{
    char *ret = calloc(1, 1u << 16), *at = ret;
    for (; *text; text++) {
        const char *letter = *text == '$' && text[1] ? strchr("TNM", text[1]) : NULL;
        if (!letter) {
            *at++ = *text;
            continue;
        }
        at += sprintf(at, "%s", values[letter - "TNM"]);
        text++;
    }
    return ret;
}

static struct program *add_program(void)
{
    cr_assert_lt(n_programs, PROGRAMS);
    struct program *program = &programs[n_programs];
    program->option = (unsigned)n_programs++ % OPTIONS;
    program->bits = 32;
    return program;
}

/* The word behind " key=", or an empty one. */
static void find_word(const char *line, const char *key, char ret[128])
{
    char wanted[16];
    snprintf(wanted, sizeof wanted, " %s=", key);
    const char *at = strstr(line, wanted);
    ret[0] = '\0';
    if (at)
        sscanf(at + strlen(wanted), "%127s", ret);
}

/* Value number i of "a|b|c"; how many there are. */
static size_t choose(const char *values, size_t i, char ret[64])
{
    size_t n = 0;
    ret[0] = '\0';
    for (const char *at = values;; n++) {
        size_t size = strcspn(at, "|");
        if (n == i)
            snprintf(ret, 64, "%.*s", (int)size, at);
        at += size;
        if (!*at++)
            return n + 1;
    }
}

static void add_variant(const char *path, const char *text, const char *entry, bool with_toolkit, bool preamble,
                        const char *const values[3])
{
    struct program *program = add_program();
    const char *base = strrchr(path, '/') + 1;
    char *filled = fill_in(entry, values);
    snprintf(program->entry, sizeof program->entry, "%s", filled);
    free(filled);
    snprintf(program->name, sizeof program->name, "%.40s %.20s %.20s %.20s", base, values[0], values[1], values[2]);
    program->code = fill_in(text, values);
    program->toolkit = with_toolkit;
    program->preamble = preamble;
    if (preamble)
        program->bits = atoi(values[1]);
}

static void add_template(const char *path)
{
    char line[512], entry[128], choices[3][128], words[3][64];
    const char *values[3] = {words[0], words[1], words[2]};
    char *text = read_file(path);
    snprintf(line, sizeof line, "%.*s", (int)strcspn(text, "\n"), text);
    cr_assert(strncmp(line, "// corpus: ", 11) == 0, "%s: %s", path, line);
    find_word(line, "entry", entry);
    find_word(line, "T", choices[0]);
    find_word(line, "N", choices[1]);
    find_word(line, "M", choices[2]);
    for (size_t i = 0; i < choose(choices[0], i, words[0]); i++)
        for (size_t k = 0; k < choose(choices[1], k, words[1]); k++)
            for (size_t m = 0; m < choose(choices[2], m, words[2]); m++)
                add_variant(path, text, entry, strstr(line, " toolkit ") != NULL, strstr(line, " preamble ") != NULL,
                            values);
    free(text);
}

/* A kernel as a framework generates it: the entry is what stands behind the first "__global__ void". */
static void add_kernel(const char *path)
{
    char *text = read_file(path);
    const char *at = strstr(text, "__global__ void ");
    cr_assert_not_null(at, "%s", path);
    at += strlen("__global__ void ");
    if (strncmp(at, "__launch_bounds__", 17) == 0)
        at = strchr(at, ')') + 2;
    struct program *program = add_program();
    snprintf(program->entry, sizeof program->entry, "%.*s", (int)strcspn(at, "("), at);
    snprintf(program->name, sizeof program->name, "%.100s", strrchr(path, '/') + 1);
    program->code = text;
    program->preamble = true;
    program->bits = n_programs % 2 ? 32 : 64;
}

static void for_each_file(const char *pattern, void (*add)(const char *path))
{
    glob_t found;
    cr_assert_eq(glob(pattern, 0, NULL, &found), 0, "%s", pattern);
    for (size_t i = 0; i < found.gl_pathc; i++)
        add(found.gl_pathv[i]);
    globfree(&found);
}

static void load_corpus(void)
{
    for_each_file(CORPUS "/*.cu", add_template);
    for_each_file(FUSIONS "/compat/*.cu", add_kernel);
    for_each_file(FUSIONS "/[!ch]*/*.cu", add_kernel);
}

/* ---- the bare compiler ---- */

static int note_library(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    if (!info->dlpi_name || !strstr(info->dlpi_name, "/libnvrtc.so"))
        return 0;
    return realpath(info->dlpi_name, data) != NULL;
}

static void find_toolkit(void)
{
    char library[PATH_MAX] = "";
    struct error error;
    dl_iterate_phdr(note_library, library);
    has_toolkit = sandbox_has_landlock() && library[0] && toolkit_find(&toolkit, library, NULL, &error) == 0;
}

static struct rtc_result compile_bare(const struct program *program, const struct kernel *kernel)
{
    const char *options[64];
    char name[256];
    size_t n = 0;
    for (; n < kernel->n_args; n++)
        options[n] = kernel->args[n].at;
    for (size_t i = 0; program->toolkit && i < toolkit.n; i++)
        options[n++] = toolkit.option_list[i];
    snprintf(name, sizeof name, "%s%s", program->preamble ? "fusiond::" : "", program->entry);
    char *whole = program->preamble ? rtc_program(program->code, program->bits) : NULL;
    struct rtc_result result = rtc_run(&(struct rtc_job){whole ? whole : program->code, options, n, true, name});
    free(whole);
    return result;
}

/* ---- images ---- */

struct section {
    const char *name;
    struct bytes bytes;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct section *)a)->name, ((const struct section *)b)->name);
}

/* An image lies in a frame as it comes, at any address. */
static Elf64_Shdr section_at(struct bytes image, const Elf64_Ehdr *header, unsigned i)
{
    Elf64_Shdr section;
    memcpy(&section, image.at + header->e_shoff + i * sizeof section, sizeof section);
    return section;
}

/* The functions of a cubin, by name. */
static size_t list_code(struct bytes image, struct section *ret, size_t room)
{
    Elf64_Ehdr header;
    size_t n = 0;
    cr_assert_gt(image.size, sizeof header);
    memcpy(&header, image.at, sizeof header);
    const char *names = (const char *)image.at + section_at(image, &header, header.e_shstrndx).sh_offset;
    for (unsigned i = 0; i < header.e_shnum; i++) {
        Elf64_Shdr section = section_at(image, &header, i);
        if (section.sh_type != SHT_PROGBITS || strncmp(names + section.sh_name, ".text.", 6) != 0)
            continue;
        cr_assert_lt(n, room);
        ret[n++] = (struct section){names + section.sh_name, {image.at + section.sh_offset, section.sh_size}};
    }
    qsort(ret, n, sizeof *ret, by_name);
    return n;
}

static bool is_same_code(struct bytes a, struct bytes b)
{
    struct section left[64], right[64];
    size_t n = list_code(a, left, 64);
    if (n == 0 || n != list_code(b, right, 64))
        return false;
    for (size_t i = 0; i < n; i++)
        if (strcmp(left[i].name, right[i].name) != 0 || left[i].bytes.size != right[i].bytes.size ||
            memcmp(left[i].bytes.at, right[i].bytes.at, left[i].bytes.size) != 0)
            return false;
    return true;
}

/* ---- the service ---- */

static struct daemon_process daemon_;
static struct wire wire;
static uint64_t service_ns, bare_ns;

static void setup(void)
{
    char why[256];
    if (!rtc_open(why))
        cr_skip("%s", why);
    find_toolkit();
    load_corpus();
    daemon_start_or_skip(&daemon_, &(struct daemon_options){0});
    wire_open(&wire, daemon_.socket);
}

static void teardown(void)
{
    daemon_finish(&daemon_);
    for (size_t i = 0; i < n_programs; i++)
        free(programs[i].code);
}

TestSuite(corpus, .init = setup, .fini = teardown);

static struct compile_request *ask_for(struct sample *sample, const struct program *program, const char *target)
{
    const struct compile_options options[OPTIONS] = {
        {0},
        {.fast_math = true},
        {.no_fmad = true},
        {.has_max_registers = true, .max_registers = 32},
        {.has_opt_level = true, .opt_level = 1},
        {.has_block_size = true, .block_size = 1024},
    };
    sample_code(sample, program->code, program->entry);
    sample->fusion.structured = !program->preamble;
    sample->fusion.target = text_of(target);
    if (program->preamble)
        sample->fusion.index_type = program->bits == 64 ? INDEX_TYPE_INT64 : INDEX_TYPE_INT32;
    sample->options = options[program->option];
    sample->options.toolkit_headers = program->toolkit;
    sample->request.with_image = sample->request.with_details = true;
    return &sample->request;
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Inline, or mapped from the one descriptor; to be released with release_image. */
static struct bytes take_image(const struct kernel *kernel)
{
    if (!kernel->has_image_fd)
        return kernel->image;
    cr_assert_eq(wire.n_fds, 1);
    void *at = mmap(NULL, kernel->image_size, PROT_READ, MAP_SHARED, wire.fds[0], 0);
    cr_assert_neq(at, MAP_FAILED);
    close(wire.fds[0]);
    wire.n_fds = 0;
    return (struct bytes){at, kernel->image_size};
}

static void release_image(const struct kernel *kernel, struct bytes image)
{
    if (kernel->has_image_fd)
        munmap((void *)image.at, image.size);
}

/* Whether it is the same by both ways. */
static bool compare(const struct program *program, const char *target)
{
    struct sample sample;
    struct compile_reply reply;
    struct failure failure = {0};
    unsigned code = wire_call(&wire, METHOD_COMPILE, ask_for(&sample, program, target), &reply, &failure);
    cr_expect_eq(code, 0, "%s for %s: %s\n%s", program->name, target, failure.text.at,
                 failure.log.at ? failure.log.at : "");
    if (code != 0)
        return false;
    struct bytes image = take_image(reply.kernel);
    uint64_t started = now_ns();
    struct rtc_result bare = compile_bare(program, reply.kernel);
    bare_ns += now_ns() - started;
    service_ns += reply.compile_ns;
    bool same = false;
    cr_expect(bare.ok, "%s for %s, bare: %s", program->name, target, bare.log);
    if (bare.ok) {
        same = is_same_code(image, (struct bytes){(const uint8_t *)bare.image, bare.size});
        cr_expect(same, "%s for %s: other code than NVRTC's", program->name, target);
        cr_expect_str_eq(reply.kernel->entries[0].lowered.at, bare.lowered, "%s for %s", program->name, target);
    }
    release_image(reply.kernel, image);
    rtc_result_finish(&bare);
    return same;
}

static bool is_possible(const struct program *program, const char *target)
{
    return rtc_supports(atoi(target + 3)) && (!program->toolkit || has_toolkit);
}

/* In the order of the programs, so that those of one set of headers come together, as they do from one framework. */
static size_t take_sample(unsigned seed, bool whole, size_t *ret_same)
{
    size_t n = 0, n_kind[2] = {0};
    srand(seed);
    for (size_t i = 0; i < n_programs; i++) {
        const struct program *program = &programs[i];
        size_t limit = program->toolkit ? SAMPLE_TOOLKIT : SAMPLE;
        for (size_t t = 0; t < TARGETS; t++) {
            bool drawn = (size_t)rand() % (program->toolkit ? 20 : 18) == 0 && n_kind[program->toolkit] < limit;
            if (!is_possible(program, targets[t]) || (!whole && !drawn))
                continue;
            n_kind[program->toolkit]++;
            *ret_same += compare(program, targets[t]);
            n++;
            wire_close(&wire); /* what it has received so far goes with it */
            wire_open(&wire, daemon_.socket);
        }
    }
    return n;
}

Test(corpus, I1_the_code_is_that_of_the_bare_compiler, .timeout = 7200)
{
    const char *given = getenv("FUSIOND_SEED"), *how = getenv("FUSIOND_CORPUS");
    unsigned seed = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)time(NULL);
    bool whole = how && strcmp(how, "whole") == 0;
    size_t same = 0;
    cr_assert_geq(n_programs, 100, "%zu programs", n_programs);
    size_t n = take_sample(seed, whole, &same);
    cr_log_warn("seed %u: %zu programs, %zu compiles compared, %zu with identical code; service %.1f s, bare %.1f s%s",
                seed, n_programs, n, same, (double)service_ns / 1e9, (double)bare_ns / 1e9,
                has_toolkit ? "" : "; no toolkit headers");
    cr_assert_gt(n, 0);
    cr_assert_eq(same, n);
    daemon_stop_in_order(&daemon_);
}
