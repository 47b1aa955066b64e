#include "kernels_db/kernel_key.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* ---- test vectors ---- */

static struct key_part part_of(const char *name, const char *text)
{
    struct key_part part = {.name = text_of(name)};
    digest_of(text, strlen(text), part.digest);
    return part;
}

static void check_vector(const char *name, const struct key_input *input, const char *expected)
{
    uint8_t key[KEY_SIZE];
    char hex[KEY_HEX];

    kernel_key(input, key);
    key_to_hex(key, hex);
    cr_assert_str_eq(hex, expected, "%s", name);

    /* The document must show the very value, in the row of that name. */
    FILE *file = fopen(SOURCE_ROOT "/docs/kernel-key.md", "re");
    char line[1024], start[64], end[KEY_HEX + 16];
    bool found = false;
    cr_assert_not_null(file);
    snprintf(start, sizeof start, "| %s | ", name);
    snprintf(end, sizeof end, "| `%s` |\n", expected);
    while (fgets(line, sizeof line, file))
        found = found || (!strncmp(line, start, strlen(start)) && strlen(line) > strlen(end) &&
                          !strcmp(line + strlen(line) - strlen(end), end));
    fclose(file);
    cr_assert(found, "docs/kernel-key.md has no row \"%s\" with the key %s", name, expected);
}

Test(kernel_key, vector_empty)
{
    struct key_input input = {0};
    check_vector("empty", &input, "c547ffb882a040e29c5bc34ddf823b159d8f60d007e2b58ca245a265f6d1e4bd");
}

Test(kernel_key, vector_copy)
{
    struct text args[] = {TEXT_OF("--std=c++17"), TEXT_OF("--gpu-architecture=sm_90a"), TEXT_OF("--fmad=true")};
    struct key_part modules[] = {part_of("index32", "using nvfuser_index_t = int;\n")};
    struct text entries[] = {TEXT_OF("copy")};
    struct key_input input = {
        .target = TEXT_OF("sm_90a"),
        .image_kind = IMAGE_KIND_CUBIN,
        .index_type = INDEX_TYPE_INT32,
        .args = args,
        .n_args = COUNT(args),
        .modules = modules,
        .n_modules = COUNT(modules),
        .entries = entries,
        .n_entries = COUNT(entries),
        .code = TEXT_OF("__global__ void copy(float *out, const float *in) "
                        "{ out[threadIdx.x] = in[threadIdx.x]; }\n"),
    };
    digest_of("compiler", 8, input.build);
    check_vector("copy", &input, "bc869312475d19fa0044cfce500bd9e5187877dee341407ae21abc5ea17c4e4a");
}

Test(kernel_key, vector_renamed)
{
    struct text args[] = {TEXT_OF("--std=c++17"), TEXT_OF("--gpu-architecture=sm_90a"), TEXT_OF("--fmad=true")};
    struct key_part modules[] = {part_of("index32", "using nvfuser_index_t = int;\n")};
    struct text entries[] = {TEXT_OF("fusiond_entry_00_its_name_is_put_in_when_the_kernel_is_delivered")};
    struct key_input input = {
        .target = TEXT_OF("sm_90a"),
        .image_kind = IMAGE_KIND_CUBIN,
        .index_type = INDEX_TYPE_INT32,
        .args = args,
        .n_args = COUNT(args),
        .modules = modules,
        .n_modules = COUNT(modules),
        .entries = entries,
        .n_entries = COUNT(entries),
        .n_renamed = 1,
        .code = TEXT_OF("__global__ void fusiond_entry_00_its_name_is_put_in_when_the_kernel_is_delivered"
                        "(float *out, const float *in) { out[threadIdx.x] = in[threadIdx.x]; }\n"),
    };
    digest_of("compiler", 8, input.build);
    check_vector("renamed", &input, "9436c630cae3c78192c136ee1e209f427e43a0b0518a27fc40944d5a78454fa3");
}

Test(kernel_key, vector_headers)
{
    struct key_part headers[] = {part_of("b.h", "#define B 2\n"), part_of("a.h", "#define A 1\n"),
                                 part_of("a/b.h", "")};
    struct text entries[] = {TEXT_OF("f<float, 4>"), TEXT_OF("f<double, 2>")};
    struct key_input input = {
        .target = TEXT_OF("compute_80"),
        .image_kind = IMAGE_KIND_PTX,
        .structured = true,
        .headers = headers,
        .n_headers = COUNT(headers),
        .entries = entries,
        .n_entries = COUNT(entries),
        .code = TEXT_OF("#include \"a.h\"\n"),
    };
    digest_of("compiler", 8, input.build);
    check_vector("headers", &input, "62f63eb0008da56b9009ea8d116471cf4db20a18a990bf0f2e443a6655b4f39f");
}

Test(kernel_key, vector_host)
{
    struct text args[] = {TEXT_OF("-DNDEBUG")};
    struct key_part modules[] = {part_of("before the code", "#include \"fusiond/host/cuda.cuh\"\n")};
    struct text entries[] = {TEXT_OF("copy")};
    struct key_input input = {
        .target = TEXT_OF("host"),
        .image_kind = IMAGE_KIND_SHARED_OBJECT,
        .structured = true,
        .args = args,
        .n_args = COUNT(args),
        .modules = modules,
        .n_modules = COUNT(modules),
        .entries = entries,
        .n_entries = COUNT(entries),
        .code = TEXT_OF("__global__ void copy(float *out, const float *in) { *out = *in; }\n"),
    };
    digest_of("compiler", 8, input.build);
    check_vector("host", &input, "03fc196b89c51c66f172f163e7142925873106f30699d7930858b9d9db4316fd");
}

/* ---- an input whose every byte can be reached ---- */

struct sample {
    char target[8], args[3][8], entries[3][8], code[16], module_names[2][8], header_names[3][8];
    struct text arg_texts[3], entry_texts[3];
    struct key_part modules[2], headers[3];
    struct key_input input;
};

static void sample_init(struct sample *sample)
{
    memset(sample, 0, sizeof *sample);
    strcpy(sample->target, "sm_90a");
    strcpy(sample->code, "void k() { }");
    for (size_t i = 0; i < 3; i++) {
        snprintf(sample->args[i], sizeof sample->args[i], "-arg%zu", i);
        snprintf(sample->entries[i], sizeof sample->entries[i], "entry%zu", i);
        snprintf(sample->header_names[i], sizeof sample->header_names[i], "h%zu.h", i);
        sample->arg_texts[i] = (struct text){sample->args[i], strlen(sample->args[i])};
        sample->entry_texts[i] = (struct text){sample->entries[i], strlen(sample->entries[i])};
        sample->headers[i] = part_of(sample->header_names[i], sample->header_names[i]);
    }
    for (size_t i = 0; i < 2; i++) {
        snprintf(sample->module_names[i], sizeof sample->module_names[i], "mod%zu", i);
        sample->modules[i] = part_of(sample->module_names[i], sample->module_names[i]);
    }
    sample->input = (struct key_input){
        .target = {sample->target, strlen(sample->target)},
        .image_kind = IMAGE_KIND_CUBIN,
        .index_type = INDEX_TYPE_INT32,
        .args = sample->arg_texts,
        .n_args = 3,
        .modules = sample->modules,
        .n_modules = 2,
        .headers = sample->headers,
        .n_headers = 3,
        .entries = sample->entry_texts,
        .n_entries = 3,
        .code = {sample->code, strlen(sample->code)},
    };
    digest_of("build", 5, sample->input.build);
}

/* Every key that a test has seen; a new one must differ from all of them. */
struct seen {
    uint8_t keys[4096][KEY_SIZE];
    size_t n;
};

static struct seen seen;

static void expect_new(const struct key_input *input, const char *what, size_t at)
{
    uint8_t key[KEY_SIZE];
    kernel_key(input, key);
    for (size_t i = 0; i < seen.n; i++)
        cr_assert(memcmp(seen.keys[i], key, KEY_SIZE) != 0, "%s %zu gives the key of change %zu", what, at, i);
    cr_assert_lt(seen.n, COUNT(seen.keys));
    memcpy(seen.keys[seen.n++], key, KEY_SIZE);
}

/* Change each byte of a span in turn (three ways), and put it back. */
static void flip_each(const struct sample *sample, void *span, size_t size, const char *what)
{
    uint8_t *bytes = span;
    for (size_t i = 0; i < size; i++)
        for (unsigned bit = 1; bit < 256; bit <<= 3) {
            bytes[i] ^= (uint8_t)bit;
            expect_new(&sample->input, what, i);
            bytes[i] ^= (uint8_t)bit;
        }
}

Test(kernel_key, F29_any_changed_byte_changes_the_key)
{
    struct sample sample;
    sample_init(&sample);
    expect_new(&sample.input, "base", 0);
    flip_each(&sample, sample.input.build, DIGEST_SIZE, "build");
    flip_each(&sample, sample.target, strlen(sample.target), "target");
    flip_each(&sample, sample.code, strlen(sample.code), "code");
    for (size_t i = 0; i < 3; i++) {
        flip_each(&sample, sample.args[i], strlen(sample.args[i]), "arg");
        flip_each(&sample, sample.entries[i], strlen(sample.entries[i]), "entry");
        flip_each(&sample, sample.header_names[i], strlen(sample.header_names[i]), "header name");
        flip_each(&sample, sample.headers[i].digest, DIGEST_SIZE, "header digest");
    }
    for (size_t i = 0; i < 2; i++) {
        flip_each(&sample, sample.module_names[i], strlen(sample.module_names[i]), "module name");
        flip_each(&sample, sample.modules[i].digest, DIGEST_SIZE, "module digest");
    }
}

Test(kernel_key, F29_any_changed_choice_or_count_changes_the_key)
{
    struct sample sample;
    sample_init(&sample);
    struct key_input base = sample.input;
    expect_new(&base, "base", 0);

    struct key_input input = base;
    input.image_kind = IMAGE_KIND_PTX;
    expect_new(&input, "image kind", 0);
    input = base;
    input.index_type = INDEX_TYPE_INT64;
    expect_new(&input, "index type", 0);
    input.index_type = index_type_absent;
    expect_new(&input, "index type", 1);
    input = base;
    input.structured = true;
    expect_new(&input, "structured", 0);

    input = base;
    input.n_renamed = 1;
    expect_new(&input, "renamed", 1);

    for (size_t n = 0; n < 3; n++) {
        input = base;
        input.n_args = n;
        expect_new(&input, "args", n);
        input = base;
        input.n_entries = n;
        expect_new(&input, "entries", n);
        input = base;
        input.n_headers = n;
        expect_new(&input, "headers", n);
    }
    for (size_t n = 0; n < 2; n++) {
        input = base;
        input.n_modules = n;
        expect_new(&input, "modules", n);
    }
    for (size_t size = 0; size < base.code.size; size++) {
        input = base;
        input.code.size = size;
        expect_new(&input, "code size", size);
    }
}

static void swap(void *a, void *b, size_t size)
{
    uint8_t keep[64];
    cr_assert_leq(size, sizeof keep);
    memcpy(keep, a, size);
    memcpy(a, b, size);
    memcpy(b, keep, size);
}

Test(kernel_key, order_matters_for_lists_and_never_for_headers)
{
    struct sample sample;
    uint8_t key[KEY_SIZE], again[KEY_SIZE];
    sample_init(&sample);
    expect_new(&sample.input, "base", 0);
    swap(&sample.arg_texts[0], &sample.arg_texts[1], sizeof(struct text));
    expect_new(&sample.input, "args swapped", 0);
    swap(&sample.entry_texts[1], &sample.entry_texts[2], sizeof(struct text));
    expect_new(&sample.input, "entries swapped", 0);
    swap(&sample.modules[0], &sample.modules[1], sizeof(struct key_part));
    expect_new(&sample.input, "modules swapped", 0);

    kernel_key(&sample.input, key);
    for (size_t i = 0; i < 6; i++) { /* all six orders of three */
        swap(&sample.headers[i % 2], &sample.headers[i % 2 + 1], sizeof(struct key_part));
        kernel_key(&sample.input, again);
        cr_assert_eq(memcmp(key, again, KEY_SIZE), 0, "order %zu of the headers changes the key", i);
    }
    /* But a digest belongs to its name. */
    swap(sample.headers[0].digest, sample.headers[1].digest, DIGEST_SIZE);
    expect_new(&sample.input, "digests of two headers swapped", 0);
}

Test(kernel_key, two_digests_under_one_header_name_are_a_set_too)
{
    struct key_part headers[] = {part_of("a.h", "1"), part_of("a.h", "2")};
    struct key_input input = {.headers = headers, .n_headers = 2};
    uint8_t key[KEY_SIZE], again[KEY_SIZE];
    kernel_key(&input, key);
    swap(&headers[0], &headers[1], sizeof headers[0]);
    kernel_key(&input, again);
    cr_assert_eq(memcmp(key, again, KEY_SIZE), 0);
}

/* The same bytes, cut elsewhere: between neighbours of one list, of two lists, and of list and code. */
Test(kernel_key, F29_moving_bytes_between_neighbours_changes_the_key)
{
    const char *bytes = "abcdefghijkl";
    for (size_t cut = 0; cut <= 12; cut++) {
        struct text halves[] = {{bytes, cut}, {bytes + cut, 12 - cut}};
        struct key_input input = {.args = halves, .n_args = 2};
        expect_new(&input, "two args", cut);
        input = (struct key_input){.entries = halves, .n_entries = 2};
        expect_new(&input, "two entries", cut);
        input = (struct key_input){.args = halves, .n_args = 1, .entries = halves + 1, .n_entries = 1};
        expect_new(&input, "arg and entry", cut);
        input = (struct key_input){.entries = halves, .n_entries = 1, .code = halves[1]};
        expect_new(&input, "entry and code", cut);
        if (cut < 12) { /* with all bytes in the target both inputs are the same */
            input = (struct key_input){.target = halves[0], .code = halves[1]};
            expect_new(&input, "target and code", cut);
            input = (struct key_input){.target = halves[0], .args = halves + 1, .n_args = 1};
            expect_new(&input, "target and arg", cut);
        }
    }
    struct key_part part = part_of("same", "same");
    struct key_input as_module = {.modules = &part, .n_modules = 1}, as_header = {.headers = &part, .n_headers = 1};
    expect_new(&as_module, "a module", 0);
    expect_new(&as_header, "a header", 0);
}

Test(kernel_key, the_most_headers_that_fit)
{
    struct key_part *headers = calloc(LIMIT_HEADERS, sizeof *headers);
    char(*names)[12] = calloc(LIMIT_HEADERS, sizeof *names);
    uint8_t key[KEY_SIZE], again[KEY_SIZE];
    cr_assert(headers && names);
    for (size_t i = 0; i < LIMIT_HEADERS; i++) {
        snprintf(names[i], sizeof names[i], "%05zu.h", i);
        headers[i] = part_of(names[i], names[i]);
    }
    struct key_input input = {.headers = headers, .n_headers = LIMIT_HEADERS};
    kernel_key(&input, key);
    for (size_t i = 0; i < LIMIT_HEADERS / 2; i++)
        swap(&headers[i], &headers[LIMIT_HEADERS - 1 - i], sizeof *headers);
    kernel_key(&input, again);
    cr_assert_eq(memcmp(key, again, KEY_SIZE), 0);
    free(headers);
    free(names);
}

/* ---- digests and hexadecimal ---- */

Test(kernel_key, digest_is_blake2b_256)
{
    uint8_t digest[DIGEST_SIZE];
    char hex[KEY_HEX];
    digest_of("abc", 3, digest);
    key_to_hex(digest, hex);
    cr_assert_str_eq(hex, "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
    digest_of(NULL, 0, digest);
    key_to_hex(digest, hex);
    cr_assert_str_eq(hex, "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8");
}

Test(kernel_key, hex_round_trip_and_refusals)
{
    char hex[KEY_HEX + 1] = "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF";
    uint8_t key[KEY_SIZE], untouched[KEY_SIZE];
    char back[KEY_HEX];
    cr_assert_eq(key_from_hex(hex, key), 0);
    cr_assert_eq(key[0], 0x00);
    cr_assert_eq(key[31], 0xff);
    key_to_hex(key, back);
    cr_assert_str_eq(back, "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff");

    memset(key, 7, sizeof key);
    memset(untouched, 7, sizeof untouched);
    cr_assert_eq(key_from_hex("", key), -1);
    hex[63] = '\0';
    cr_assert_eq(key_from_hex(hex, key), -1, "63 digits");
    strcpy(hex + 63, "FF");
    cr_assert_eq(key_from_hex(hex, key), -1, "65 digits");
    hex[64] = '\0';
    hex[10] = 'g';
    cr_assert_eq(key_from_hex(hex, key), -1, "not a digit");
    hex[10] = ' ';
    cr_assert_eq(key_from_hex(hex, key), -1, "a blank");
    cr_assert_eq(memcmp(key, untouched, KEY_SIZE), 0, "a refused text must leave the result alone");
}
