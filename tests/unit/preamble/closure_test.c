/* preamble_closure: which identifiers count, and which modules follow from them. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "preamble/preamble.h"

/* True if the closure of the text holds the module. */
static int needs(const char *code, const char *module)
{
    uint8_t used[PREAMBLE_MAX];
    size_t n = preamble_closure(code, strlen(code), used);
    for (size_t i = 0; i < n; i++)
        if (strcmp(preamble_modules()[used[i]].name, module) == 0)
            return 1;
    return 0;
}

static size_t count(const char *code)
{
    uint8_t used[PREAMBLE_MAX];
    return preamble_closure(code, strlen(code), used);
}

Test(tokenizer, B4_3_identifiers_count_wherever_they_stand)
{
    static const char *const codes[] = {
        "Tensor", "x=Tensor<float,2>", "(Tensor)", "a\nTensor\nb", "1+Tensor", "::Tensor", "#define T Tensor",
    };
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
        cr_expect(needs(codes[i], "tensor"), "%s", codes[i]);
}

Test(tokenizer, B4_3_parts_of_other_identifiers_do_not_count)
{
    static const char *const codes[] = {
        "Tensor2", "_Tensor", "myTensor", "Tensor_", "TENSOR", "tensor", "T ensor", "$Tensor", "\xc3\xa9Tensor", "",
    };
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
        cr_expect_eq(count(codes[i]), 0, "%s", codes[i]);
}

Test(tokenizer, B4_3_comments_strings_and_characters_do_not_count)
{
    static const char *const codes[] = {
        "// Tensor",
        "// a \\\n Tensor",
        "// a \\\r\n Tensor",
        "// Tensor \\",
        "/* Tensor */",
        "/* * / Tensor **/",
        "/* Tensor",
        "/*",
        "/",
        "\"Tensor\"",
        "\"a \\\" Tensor\"",
        "\"a \\\n Tensor\"",
        "\"Tensor",
        "\"\\",
        "'Tensor'",
        "'\\'Tensor'",
        "u8\"Tensor\"",
        "R\"(Tensor \" Tensor)\"",
        "R\"x( )\" Tensor )x\"",
        "u8R\"( \" Tensor)\"",
        "LR\"(\n\" Tensor)\"",
        "R\"(Tensor",
    };
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
        cr_expect_eq(count(codes[i]), 0, "%s", codes[i]);
}

Test(tokenizer, B4_3_code_behind_a_literal_counts)
{
    static const char *const codes[] = {
        "// a\nTensor",     "/* a */Tensor",        "/**/Tensor",
        "/*//*/Tensor",     "\"a\"Tensor",          "\"\\\\\"Tensor",
        "\"//\"+Tensor",    "'\"'+Tensor",          "'\\''+Tensor",
        "R\"(\\)\"+Tensor", "R\"x()y\")x\"+Tensor", "1'000+Tensor",
        "0x1'ffp-3+Tensor", "1.5e+3f*Tensor",       "0b1'1;Tensor",
        "don't\nTensor",    "PR\"(\"+Tensor", /* PR is an identifier, so this is a plain string */
        "a/Tensor",         "x/ /Tensor",           "5/Tensor",
    };
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
        cr_expect(needs(codes[i], "tensor"), "%s", codes[i]);
}

Test(tokenizer, B4_3_numbers_swallow_their_letters)
{
    cr_expect_eq(count("0xTensor 1Tensor 1'Tensor .5Tensor 1e-Tensor"), 0);
}

Test(tokenizer, B4_3_the_size_is_the_end)
{
    uint8_t used[PREAMBLE_MAX];
    cr_expect_eq(preamble_closure("Tensors", 7, used), 0);
    cr_expect_gt(preamble_closure("Tensors", 6, used), 0);
    cr_expect_eq(preamble_closure("Tensor", 5, used), 0);
    cr_expect_eq(preamble_closure("a\0Tensor", 3, used), 0);
    cr_expect_gt(preamble_closure("a\0Tensor", 8, used), 0, "a NUL byte does not end the text");
}

/* Every prefix of a text with every kind of token, in a buffer of exactly its size: ASan finds a read behind it. */
Test(tokenizer, B4_3_reads_nothing_behind_the_text)
{
    static const char code[] = "a 1'0 \"b\\\"\" 'c' u8R\"de(f)de\" /* g */ // h \\\r\n i\n 0x1p+3 Tensor LR\"(\\";
    uint8_t used[PREAMBLE_MAX];
    for (size_t size = 0; size < sizeof(code); size++) {
        char *exact = malloc(size + !size);
        memcpy(exact, code, size);
        preamble_closure(exact, size, used);
        free(exact);
    }
}

Test(closure, B4_3_is_ascending_and_closed)
{
    uint8_t used[PREAMBLE_MAX];
    static const char code[] = "blockReduce Tensor __half2float reciprocal";
    size_t n = preamble_closure(code, strlen(code), used);
    cr_assert_gt(n, 4);
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            cr_expect_gt(used[i], used[i - 1]);
        const struct preamble_module *module = &preamble_modules()[used[i]];
        for (const char *const *need = module->needs; *need; need++)
            cr_expect(needs(code, *need), "%s needs %s", module->name, *need);
    }
}

Test(closure, B4_3_holds_no_more_than_is_needed)
{
    cr_expect_eq(count("__global__ void k(float *p, int n) { if (threadIdx.x < n) p[threadIdx.x] *= 2; }"), 0);
    cr_expect(needs("Tensor", "tensor") && needs("Tensor", "array") && needs("__bfloat", "types"));
    cr_expect(!needs("Tensor", "half") && !needs("Tensor", "helpers") && !needs("Tensor", "warp"));
    cr_expect(!needs("Tensor", "memory_moves") && !needs("__bfloat", "memory_moves"));
    cr_expect(!needs("ceilDiv", "helpers") && !needs("max", "helpers") && !needs("nvfuser_zero", "integers"));
    cr_expect(needs("__half2float(x)", "half") && !needs("__half2float(x)", "bfloat"));
    cr_expect(needs("warp::warpReduceTIDX", "warp") && !needs("warp::warpReduceTIDX", "block_reduction"));
}

Test(closure, B4_3_leaves_the_index_module_to_the_caller)
{
    static const char *const codes[] = {"nvfuser_index_t i;", "Tensor<float, 2> T0; nvfuser_index_t i;"};
    for (size_t i = 0; i < 2; i++)
        cr_expect(!needs(codes[i], "index_int32") && !needs(codes[i], "index_int64"), "%s", codes[i]);
    cr_expect_gt(count("nvfuser_index_t i;"), 0, "what the index modules need tells that one is wanted");
}
