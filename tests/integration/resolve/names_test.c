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

/* Whether the byte is in a string of the stored image that has a placeholder. */
static bool is_in_name(struct bytes image, size_t at)
{
    const char *bytes = (const char *)image.at;
    size_t begin = at, end = at;
    while (begin > 0 && bytes[begin - 1])
        begin--;
    while (end < image.size && bytes[end])
        end++;
    return memmem(bytes + begin, end - begin, PLACEHOLDER_STEM, strlen(PLACEHOLDER_STEM)) != NULL;
}

/* No byte changes but those of strings that have names, and what was put in can be taken out again. */
static void check_bytes(const char *what, struct bytes stored)
{
    static const struct entry_names shorter = {"k", 2},
                                    as_long = {"a_name_of_sixty_four_bytes_as_many_as_there_are_in_a_placeholder", 65};
    char placeholder[PLACEHOLDER_SIZE + 1];
    struct bytes image;
    struct error error;
    cr_assert_eq(strlen(as_long.at), PLACEHOLDER_SIZE);
    cr_assert_eq(image_names_put(shorter, IMAGE_KIND_CUBIN, stored, &zone, &image, &error), 0, "%s: %s", what,
                 error.text);
    cr_assert_eq(image.size, stored.size);
    for (size_t i = 0; i < image.size; i++)
        cr_assert(image.at[i] == stored.at[i] || is_in_name(stored, i), "%s: byte %zu", what, i);
    cr_assert_eq(image_names_count(image), 0);

    cr_assert_eq(image_names_put(as_long, IMAGE_KIND_CUBIN, stored, &zone, &image, &error), 0, "%s: %s", what,
                 error.text);
    placeholder_write(0, placeholder);
    size_t n = 0;
    for (char *at = (char *)(uintptr_t)image.at, *end = at + image.size;
         (at = memmem(at, (size_t)(end - at), as_long.at, PLACEHOLDER_SIZE)); n++)
        memcpy(at, placeholder, PLACEHOLDER_SIZE);
    cr_assert_eq(n, image_names_count(stored));
    cr_assert_arr_eq(image.at, stored.at, stored.size, "%s", what);
}

/* Every `step`-th kernel. */
static void check_round(struct round round, size_t step)
{
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i += step) {
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
        if (requests[0].resolved.image_kind == IMAGE_KIND_CUBIN)
            check_bytes(what, stored.image);
        for (size_t k = 0; k < 2; k++) {
            check_delivered(what, &requests[k], &stored);
            request_finish(&requests[k]);
        }
        msgpack_zone_clear(&zone);
    }
}

Test(names, B7_2_cubins_are_those_of_the_clients_own_text)
{
    check_round((struct round){"sm_90a", false}, 1);
}

Test(names, B7_2_cubins_with_line_information)
{
    check_round((struct round){"sm_100", true}, 1);
}

Test(names, B7_2_ptx_is_that_of_the_clients_own_text)
{
    check_round((struct round){"compute_90", false}, 1);
}

Test(names, B7_2_cubins_of_every_architecture)
{
    for (size_t i = 0; i < ready.n_archs; i++) {
        char target[16];
        snprintf(target, sizeof target, "sm_%lld", (long long)ready.archs[i]);
        check_round((struct round){target, i % 2}, 8);
    }
}

/* Two kernels of one image, one name of which is part of the other, and both templates. */
Test(names, B7_2_several_names_in_one_image)
{
    static const char code[] =
        "template <int N> __global__ void sum(int *x) { *x = N; }\n"
        "template <class T> __global__ void sum_sum(T *x) { __shared__ T s[4]; s[*x] = 1; *x = s[2]; }\n";
    struct text names[2];
    struct bytes image;
    struct error error = {0};
    struct request request;
    prepare(&request, 0, "sum", (struct round){"sm_90a", false});
    request.fusion.structured = true;
    request.fusion.code = TEXT_OF(code);
    request.entries[0] = TEXT_OF("sum<3>");
    request.entries[1] = TEXT_OF("sum_sum<int>");
    request.fusion.n_entries = 2;
    cr_assert_eq(request_resolve(&request), 0, "%s", request.error.text);
    cr_assert_eq(entry_names_count(request.resolved.entry_names), 2);
    struct worker_job job = {
        .program = request.resolved.program,
        .args = request.resolved.job_args,
        .n_args = request.resolved.n_job_args,
        .names = request.resolved.names,
        .n_names = 2,
        .image_kind = IMAGE_KIND_CUBIN,
    };
    struct worker_result result = {0};
    cr_assert_eq(compiler_process_compile(&worker, &job, &zone, &result, &error), 0, "%s", error.text);
    cr_assert_eq(result.result, 0, "%s", result.log.at);
    cr_assert_eq(image_names_put(request.resolved.entry_names, IMAGE_KIND_CUBIN, result.image, &zone, &image, &error),
                 0, "%s", error.text);
    for (size_t i = 0; i < 2; i++)
        cr_assert_eq(entry_names_put(request.resolved.entry_names, result.entries[i].lowered, &zone, &names[i], &error),
                     0);
    cr_expect_str_eq(names[0].at, "_Z3sumILi3EEvPi");
    cr_expect_str_eq(names[1].at, "_Z7sum_sumIiEvPT_");
    for (size_t i = 0; i < 2; i++)
        cr_expect(memmem(image.at, image.size, names[i].at, names[i].size + 1), "%s", names[i].at);
    /* Two kernels must not come to have one name. */
    cr_expect_eq(
        image_names_put((struct entry_names){"sum\0sum", 8}, IMAGE_KIND_CUBIN, result.image, &zone, &image, &error), 0,
        "templates of other arguments are other symbols");
    request_finish(&request);
}

/* What does not fit is refused, never half done. */
Test(names, I1_an_image_that_cannot_be_named_is_refused)
{
    static const char data[] = "__device__ const char text[] = \"" PLACEHOLDER_STEM "00" PLACEHOLDER_TAIL "\";\n"
                               "__global__ void k(char *x) { *x = text[*x]; }\n";
    struct bytes image;
    struct error error = {0};
    struct request request;
    prepare(&request, 0, "k", (struct round){"sm_90a", false});
    cr_assert_eq(request_resolve(&request), 0, "%s", request.error.text);
    struct worker_result result = compile(&request, TEXT_OF(data), TEXT_OF("k"));
    struct entry_names names = {"k", 2};
    cr_expect_eq(image_names_put(names, IMAGE_KIND_CUBIN, result.image, &zone, &image, &error), -1);
    cr_expect_eq(error.code, STATUS_INTERNAL);
    cr_expect_neq(strstr(error.text, "are in tables of strings"), NULL, "%s", error.text);

    /* Another symbol that has the name already. */
    static const char two[] =
        "extern \"C\" __global__ void " PLACEHOLDER_STEM "00" PLACEHOLDER_TAIL "(int *x) { *x = 1; }\n"
        "extern \"C\" __global__ void k(int *x) { *x = 2; }\n";
    result = compile(&request, TEXT_OF(two), TEXT_OF("k"));
    cr_expect_eq(image_names_put(names, IMAGE_KIND_CUBIN, result.image, &zone, &image, &error), -1);
    cr_expect_neq(strstr(error.text, "another symbol"), NULL, "%s", error.text);
    cr_expect_eq(image_names_put((struct entry_names){"l", 2}, IMAGE_KIND_CUBIN, result.image, &zone, &image, &error),
                 0, "%s", error.text);

    /* Files that are no cubins, or are cut off. */
    uint8_t *copy = msgpack_zone_malloc(&zone, result.image.size);
    memcpy(copy, result.image.at, result.image.size);
    for (size_t size = 1; size < ((const Elf64_Ehdr *)(const void *)copy)->e_shoff; size += 97) {
        struct bytes cut = {copy, size};
        if (image_names_count(cut) > 0)
            cr_expect_eq(image_names_put((struct entry_names){"l", 2}, IMAGE_KIND_CUBIN, cut, &zone, &image, &error),
                         -1, "%zu bytes", size);
    }
    request_finish(&request);
}
