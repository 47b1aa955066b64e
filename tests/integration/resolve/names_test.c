/* B7.2 with real compiles: a kernel has one key whatever it is called, and what a client is given is what the compiler
 * would have made of his own text. */
#include <criterion/criterion.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/resolve/image_names.h"
#include "tests/support/compiler_process.h"
#include "tests/unit/resolve/fixture.h"

static const struct {
    bool structured;
    const char *entry, *code;
} kernels[] = {
#define PLAIN(entry, code) {false, entry, code},
#define WHOLE(entry, code) {true, entry, code},
#include "tests/integration/resolve/named_kernels.def"
};

static const char *const two_names[] = {"softmax_bwd",
                                        "nvfuser_pointwise_f12_c1_r0_g0_of_a_long_name_that_fits_64_byte"};

static msgpack_zone zone, lasting;
static struct compiler_process worker;
static struct worker_ready ready;

static void setup(void)
{
    msgpack_zone_init(&zone, MSGPACK_ZONE_CHUNK_SIZE);
    msgpack_zone_init(&lasting, MSGPACK_ZONE_CHUNK_SIZE);
    compiler_process_start_or_skip(&worker, NULL, &lasting, &ready);
}

static void teardown(void)
{
    compiler_process_finish(&worker);
    msgpack_zone_destroy(&zone);
    msgpack_zone_destroy(&lasting);
}

TestSuite(names, .init = setup, .fini = teardown);

/* The text with the name for every @, in the zone. */
static struct text called(const char *text, const char *name)
{
    char *ret = msgpack_zone_malloc(&zone, strlen(text) * (strlen(name) + 1) + 1), *at = ret;
    for (; *text; text++) {
        if (*text == '@')
            at = stpcpy(at, name);
        else
            *at++ = *text;
    }
    *at = '\0';
    return text_of(ret);
}

/* What differs from one round over the kernels to the next. */
struct round {
    const char *target;
    bool line_info;
};

static void prepare(struct request *request, size_t kernel, const char *name, struct round round)
{
    request_init(request);
    request->facts = (struct compiler_facts){
        .major = (unsigned)ready.major, .minor = (unsigned)ready.minor, .archs = ready.archs, .n_archs = ready.n_archs};
    request->fusion.structured = kernels[kernel].structured;
    request->fusion.code = called(kernels[kernel].code, name);
    request->entries[0] = called(kernels[kernel].entry, name);
    request->fusion.target = text_of(round.target);
    request->compile.line_info = round.line_info;
    request->fusion.side_effects_only = true;
    request->fusion.n_params = request->fusion.n_outputs = 0;
}

static struct bytes keep(struct bytes bytes)
{
    void *copy = msgpack_zone_malloc(&zone, bytes.size + 1);
    if (bytes.size)
        memcpy(copy, bytes.at, bytes.size);
    return (struct bytes){copy, bytes.size};
}

static struct worker_result compile(const struct request *request, struct text program, struct text name)
{
    struct worker_result result = {0};
    struct error error = {0};
    struct worker_job job = {
        .program = program,
        .args = request->resolved.job_args,
        .n_args = request->resolved.n_job_args,
        .names = &name,
        .n_names = 1,
        .image_kind = request->resolved.image_kind,
    };
    cr_assert_eq(compiler_process_compile(&worker, &job, &zone, &result, &error), 0, "%s", error.text);
    cr_assert_eq(result.result, 0, "%s\n%s", program.at, result.log.at);
    /* Bytes live until the next call only. */
    result.image = keep(result.image);
    result.ptx = keep(result.ptx);
    return result;
}

/* The client's own text, compiled as it is. */
static struct worker_result compile_clean(const struct request *request)
{
    const struct resolved *resolved = &request->resolved;
    struct text code = request->fusion.code;
    const char *behind = resolved->program.at + resolved->code_at + resolved->code.size;
    size_t size = resolved->program.size - resolved->code.size + code.size;
    char *program = msgpack_zone_malloc(&zone, size + 1), name[LIMIT_NAME];
    memcpy(program, resolved->program.at, resolved->code_at);
    memcpy(program + resolved->code_at, code.at, code.size);
    strcpy(program + resolved->code_at + code.size, behind);
    snprintf(name, sizeof name, "%s%s", request->fusion.structured ? "" : "fusiond::", request->entries[0].at);
    return compile(request, (struct text){program, size}, called(name, ""));
}

/* ---- what an image is made of ---- */

struct part {
    char name[600];
    struct bytes bytes;
};

static int compare_parts(const void *a, const void *b)
{
    return strcmp(((const struct part *)a)->name, ((const struct part *)b)->name);
}

static const Elf64_Shdr *section_of(struct bytes image, size_t i)
{
    const Elf64_Ehdr *header = (const void *)image.at;
    return (const Elf64_Shdr *)(const void *)(image.at + header->e_shoff) + i;
}

static const char *string_of(struct bytes image, size_t table, size_t offset)
{
    return (const char *)image.at + section_of(image, table)->sh_offset + offset;
}

/* All sections but those that hold names and options, and, as parts of no bytes, the symbols. */
static size_t take_apart(struct bytes image, struct part *ret, size_t room)
{
    const Elf64_Ehdr *header = (const void *)image.at;
    size_t n = 0;
    for (size_t i = 1; i < header->e_shnum; i++) {
        const Elf64_Shdr *section = section_of(image, i);
        const char *name = string_of(image, header->e_shstrndx, section->sh_name);
        struct bytes bytes = {image.at + section->sh_offset, section->sh_type == SHT_NOBITS ? 0 : section->sh_size};
        cr_assert(n < room);
        if (section->sh_type == SHT_SYMTAB) {
            for (size_t at = 0; at < section->sh_size / sizeof(Elf64_Sym); at++) {
                const Elf64_Sym *symbol = (const Elf64_Sym *)(const void *)bytes.at + at;
                cr_assert(n < room);
                snprintf(ret[n].name, sizeof ret[n].name, "symbol %s %u %llu",
                         string_of(image, section->sh_link, symbol->st_name), symbol->st_info,
                         (unsigned long long)symbol->st_size);
                ret[n++].bytes = (struct bytes){image.at, 0};
            }
            continue;
        }
        snprintf(ret[n].name, sizeof ret[n].name, "%s", name);
        /* Names have their places in these; the notes have the time and the options. */
        bool only_name = section->sh_type == SHT_STRTAB || section->sh_type == SHT_NOTE || strstr(name, "debug") ||
                         strstr(name, ".nv.info") == name || section->sh_type == SHT_REL ||
                         section->sh_type == SHT_RELA || strstr(name, "callgraph") || strstr(name, ".nv.merc");
        ret[n++].bytes = only_name ? (struct bytes){image.at, 0} : bytes;
    }
    qsort(ret, n, sizeof *ret, compare_parts);
    return n;
}

static void expect_same_parts(const char *what, struct bytes a, struct bytes b)
{
    static struct part parts_a[400], parts_b[400];
    size_t n_a = take_apart(a, parts_a, 400), n_b = take_apart(b, parts_b, 400);
    cr_expect_eq(n_a, n_b, "%s: %zu and %zu sections and symbols", what, n_a, n_b);
    for (size_t i = 0; i < n_a && i < n_b; i++) {
        cr_expect_str_eq(parts_a[i].name, parts_b[i].name, "%s: %s, %s", what, parts_a[i].name, parts_b[i].name);
        cr_expect(parts_a[i].bytes.size == parts_b[i].bytes.size &&
                      memcmp(parts_a[i].bytes.at, parts_b[i].bytes.at, parts_a[i].bytes.size) == 0,
                  "%s: the bytes of %s", what, parts_a[i].name);
    }
}

/* ---- the property ---- */

/* PTX without what depends on how long a line is: columns of line information, and how numbers are broken into lines.
 */
static char *normal_ptx(struct bytes ptx)
{
    char *ret = msgpack_zone_malloc(&zone, ptx.size + 1), *to = ret;
    const char *at = (const char *)ptx.at, *end = at + ptx.size;
    bool numbers = false;
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t size = stop ? (size_t)(stop - at) + 1 : (size_t)(end - at);
        bool more = size > 4 && memcmp(at, ".b8 ", 4) == 0;
        if (more && numbers)
            to[-1] = ',';
        size_t skip = more && numbers ? 4 : 0;
        if (size < 5 || memcmp(at, "\t.loc", 5) != 0)
            to = mempcpy(to, at + skip, size - skip);
        numbers = more;
        at += size;
    }
    *to = '\0';
    return ret;
}

static void check_delivered(const char *what, const struct request *request, const struct worker_result *stored)
{
    const struct resolved *resolved = &request->resolved;
    struct worker_result clean = compile_clean(request);
    struct bytes image, ptx;
    struct text lowered;
    struct error error = {0};
    bool is_ptx = resolved->image_kind == IMAGE_KIND_PTX;
    cr_assert_eq(image_names_put(resolved->entry_names, resolved->image_kind, is_ptx ? stored->ptx : stored->image,
                                 &zone, &image, &error),
                 0, "%s: %s", what, error.text);
    cr_assert_eq(image_names_put(resolved->entry_names, IMAGE_KIND_PTX, stored->ptx, &zone, &ptx, &error), 0, "%s: %s",
                 what, error.text);
    cr_assert_eq(entry_names_put(resolved->entry_names, stored->entries[0].lowered, &zone, &lowered, &error), 0);
    cr_expect_str_eq(lowered.at, clean.entries[0].lowered.at, "%s: %s, %s", what, lowered.at,
                     clean.entries[0].lowered.at);
    cr_expect_str_eq(normal_ptx(ptx), normal_ptx(clean.ptx), "%s: PTX\n%.*s\n---\n%.*s", what, (int)ptx.size, ptx.at,
                     (int)clean.ptx.size, clean.ptx.at);
    if (!request->compile.line_info)
        cr_expect(ptx.size == clean.ptx.size && memcmp(ptx.at, clean.ptx.at, ptx.size) == 0, "%s", what);
    if (!is_ptx)
        expect_same_parts(what, image, clean.image);
    cr_expect_null(memmem(image.at, image.size, PLACEHOLDER_STEM, strlen(PLACEHOLDER_STEM)), "%s", what);
}

static void check_round(struct round round)
{
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        struct request requests[2];
        uint8_t keys[2][KEY_SIZE];
        char what[200];
        snprintf(what, sizeof what, "kernel %zu for %s: %.100s", i, round.target, kernels[i].code);
        for (size_t k = 0; k < 2; k++) {
            prepare(&requests[k], i, two_names[k], round);
            request_key(&requests[k], keys[k]);
            cr_assert_eq(entry_names_count(requests[k].resolved.entry_names), 1, "%s: %s", what,
                         requests[k].resolved.names_kept.at);
        }
        cr_assert_arr_eq(keys[0], keys[1], KEY_SIZE, "%s", what);
        struct worker_result stored =
            compile(&requests[0], requests[0].resolved.program, requests[0].resolved.names[0]);
        for (size_t k = 0; k < 2; k++) {
            check_delivered(what, &requests[k], &stored);
            request_finish(&requests[k]);
        }
        msgpack_zone_clear(&zone);
    }
}

Test(names, B7_2_cubins_are_those_of_the_clients_own_text)
{
    check_round((struct round){"sm_90a", false});
}

Test(names, B7_2_cubins_with_line_information)
{
    check_round((struct round){"sm_100", true});
}

Test(names, B7_2_ptx_is_that_of_the_clients_own_text)
{
    check_round((struct round){"compute_90", false});
}
