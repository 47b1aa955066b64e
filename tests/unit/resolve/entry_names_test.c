/* Names in place of placeholders, in what a compiler says. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "daemon/resolve/entry_names.h"

#define A PLACEHOLDER_STEM "00" PLACEHOLDER_TAIL
#define B PLACEHOLDER_STEM "01" PLACEHOLDER_TAIL

static msgpack_zone zone;
static const struct entry_names names = {"softmax\0sum", 12};

static void setup(void)
{
    msgpack_zone_init(&zone, 4096);
}

static void teardown(void)
{
    msgpack_zone_destroy(&zone);
}

TestSuite(entry_names, .init = setup, .fini = teardown);

static const char *put(const char *text)
{
    struct text ret;
    struct error error;
    cr_assert_eq(entry_names_put(names, text_of(text), &zone, &ret, &error), 0);
    cr_assert_eq(ret.at[ret.size], '\0');
    return ret.at;
}

Test(entry_names, B7_2_lists)
{
    struct text texts[2] = {TEXT_OF("softmax"), TEXT_OF("sum")}, *back;
    struct entry_names packed;
    struct error error;
    size_t n;
    cr_assert_eq(entry_names_pack(texts, 2, &zone, &packed, &error), 0);
    cr_assert(entry_names_equal(packed, names));
    cr_assert_eq(entry_names_count(packed), 2);
    cr_assert(text_is(entry_name(packed, 0), "softmax") && text_is(entry_name(packed, 1), "sum"));
    cr_assert_null(entry_name(packed, 2).at);
    cr_assert_eq(entry_names_unpack(packed, &zone, &back, &n, &error), 0);
    cr_assert(n == 2 && text_is(back[1], "sum"));
    cr_assert_eq(entry_names_pack(texts, 0, &zone, &packed, &error), 0);
    cr_assert(packed.size == 0 && entry_names_equal(packed, (struct entry_names){0}));
}

Test(entry_names, B7_2_identifiers_of_entries)
{
    static const char *const cases[][2] = {
        {"f", "f"},          {"a::f", "f"},    {"f<int, 3>", "f"},  {"a::b::f<c::d>", "f"},
        {"a::f<1>::g", "g"}, {"f<a::b>", "f"}, {"f<(4 > 2)>", "f"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        cr_expect(text_is(entry_identifier(text_of(cases[i][0])), cases[i][1]), "%s", cases[i][0]);
}

Test(entry_names, B7_2_plain_and_mangled)
{
    cr_expect_str_eq(put("nothing"), "nothing");
    cr_expect_str_eq(put(""), "");
    cr_expect_str_eq(put(A), "softmax");
    cr_expect_str_eq(put("a " A "<" B "> b " A), "a softmax<sum> b softmax");
    cr_expect_str_eq(put("_ZN7fusiond64" A "EPf"), "_ZN7fusiond7softmaxEPf");
    cr_expect_str_eq(put("_ZZ64" B "PfE3buf"), "_ZZ3sumPfE3buf");
    cr_expect_str_eq(put("_Z64" A "I64" B "E"), "_Z7softmaxI3sumE");
    /* Not ours: a number that nobody has, and one that is not whole. */
    cr_expect_str_eq(put(PLACEHOLDER_STEM "02" PLACEHOLDER_TAIL "."), PLACEHOLDER_STEM "02" PLACEHOLDER_TAIL ".");
    cr_expect_str_eq(put(PLACEHOLDER_STEM "00_other"), PLACEHOLDER_STEM "00_other");
    cr_expect_str_eq(put(PLACEHOLDER_STEM), PLACEHOLDER_STEM);
}

Test(entry_names, B3_2_a_name_that_is_cut_off)
{
    char text[200];
    snprintf(text, sizeof text, "in %.*s", 20, A);
    cr_expect_str_eq(put(text), "in softmax");
    snprintf(text, sizeof text, "in %.*s", 63, A);
    cr_expect_str_eq(put(text), "in softmax");
    snprintf(text, sizeof text, "%.*s\nmore", 20, A);
    cr_expect_str_eq(put(text), text, "the end of a line is no end of the text");
}

/* A line, and below it a caret under the `column`-th character, from 0. */
static const char *under(const char *line, int column)
{
    char *ret = msgpack_zone_malloc(&zone, 512);
    snprintf(ret, 512, "%s\n%*s^\n", line, column, "");
    return ret;
}

Test(entry_names, B3_2_carets_move_along)
{
    cr_expect_str_eq(put(under("void " A "(int x) { y; }", 5 + 64 + 10)),
                     under("void softmax(int x) { y; }", 5 + 7 + 10));
    cr_expect_str_eq(put(under("  " A "()", 2)), under("  softmax()", 2));
    cr_expect_str_eq(put(under("  " A "()", 40)), under("  softmax()", 2 + 6));
    cr_expect_str_eq(put(under("  x " A, 2)), under("  x softmax", 2));
    cr_expect_str_eq(put(under(A " " B ";", 64 + 1 + 64)), under("softmax sum;", 7 + 1 + 3));
    cr_expect_str_eq(put("plain\n  ^\n" A), "plain\n  ^\nsoftmax");
}

Test(entry_names, B3_2_columns_of_diagnostics)
{
    char text[512];
    /* As NVRTC writes it: the message, the line indented by two, the caret. Columns count from 1. */
    snprintf(text, sizeof text, "y is undefined\n%s", under("  void " A "() { y; }", 2 + 5 + 64 + 5));
    struct diagnostic diagnostic = {.text = text_of(text), .column = 5 + 64 + 5 + 1, .has_column = true};
    struct error error;
    cr_assert_eq(entry_names_put_diagnostics(names, &diagnostic, 1, &zone, &error), 0);
    snprintf(text, sizeof text, "y is undefined\n%s", under("  void softmax() { y; }", 2 + 5 + 7 + 5));
    cr_expect_str_eq(diagnostic.text.at, text);
    cr_expect_eq(diagnostic.column, 5 + 7 + 5 + 1, "%u", (unsigned)diagnostic.column);
}
