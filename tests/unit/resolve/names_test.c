#include <criterion/criterion.h>

#include "daemon/resolve/identifiers.h"
#include "daemon/resolve/names.h"
#include "tests/unit/resolve/fixture.h"

Test(names, B1_entries_that_are_names)
{
    static const char *const good[] = {
        "softmax",
        "_k9",
        "nvf::softmax",
        "f<float, 4>",
        "f<float,(4 > 2)>",
        "f<Array<float, 4>>",
        "f<g<1>, int[4]>",
        "a::f<1>::g",
        "f<'a'>",
        "f<-1, ~0u, 1.5f>",
        "f<void (*)(int &, const ::T *)>",
        "f<sizeof(int) == 4>",
        "f<>",
    };
    char scratch[64];
    for (size_t i = 0; i < ARRAY_SIZE(good); i++)
        cr_expect_null(entry_fault(text_of(good[i]), scratch), "%s: %s", good[i],
                       entry_fault(text_of(good[i]), scratch));
}

Test(names, B1_entries_that_are_not)
{
    static const char *const bad[] = {
        "",       "9f",     "f;",       "f{}",   "f\n",     "f\\",     "#f",          "f g",
        "f()",    "&f",     "::f",      "f::",   "a:b",     "a:::b",   "f<",          "f>",
        "f<(>",   "f<)>",   "f<[)]>",   "f<1>g", "f<\"\">", "f<a;b>",  "f<{}>",       "f<a\tb>",
        "f<1>>",  "f<1><2", "f<@>",     "f<$>",  "f<`>",    "f<\x7f>", "f<\xc3\xa9>", "f\xc3\xa9",
        "f<a/b>", "f<//>",  "f<a?b:c>", "f.g",   "f,g",     "a::<1>",  "f=1",         "f<#>",
    };
    char scratch[64];
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        cr_expect_not_null(entry_fault(text_of(bad[i]), scratch), "\"%s\"", bad[i]);
    cr_expect_not_null(entry_fault((struct text){"f\0g", 3}, scratch), "a NUL");
    cr_expect_not_null(entry_fault((struct text){"f<\0>", 4}, scratch), "a NUL between brackets");

    char longest[LIMIT_NAME + 1];
    for (size_t i = 0; i < sizeof longest; i++)
        longest[i] = 'a';
    cr_expect_null(entry_fault((struct text){longest, LIMIT_NAME}, scratch));
    cr_expect_not_null(entry_fault((struct text){longest, LIMIT_NAME + 1}, scratch));
    for (size_t i = 1; i < sizeof longest; i++)
        longest[i] = '<';
    cr_expect_not_null(entry_fault((struct text){longest, LIMIT_NAME}, scratch), "deep nesting");
}

Test(names, F28_header_names)
{
    static const char *const good[] = {"a.h",         "lib/a.h", "a..b/c",    "cuda/std/type_traits",
                                       "..a",         "a b.h",   "fusiond.h", "x/fusiond/y",
                                       "x/fusion.cu", "...",     "~/x"};
    static const char *const bad[] = {
        "",       "/etc/passwd", "../a.h",     "a/../b.h",  "a/..", "..",  ".",         "./a.h",
        "a//b.h", "a/",          "a\\b.h",     "a\nb",      "a\"b", "a<b", "fusiond/x", "fusiond/warp.cuh",
        "a\tb",   "a\x7f",       "\xc3\xa9.h", "fusion.cu", "//a",  "/",   "fusiond/",
    };
    for (size_t i = 0; i < ARRAY_SIZE(good); i++)
        cr_expect_null(header_fault(text_of(good[i])), "%s: %s", good[i], header_fault(text_of(good[i])));
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        cr_expect_not_null(header_fault(text_of(bad[i])), "\"%s\"", bad[i]);
    cr_expect_not_null(header_fault((struct text){"a\0b", 3}), "a NUL");
}

Test(names, B2_3_identifiers_of_code)
{
    static const char *const with[] = {
        "word",
        "(word)",
        "a.word;",
        "#define W word\n",
        "\"x\" word",
        "'\"' word '\"'",
        "/* x */ word",
        "// x\nword",
        "R\"(\")\" word",
        "R\"tag(\")\" )tag\" word",
        "\"\\\"\" word",
        "1'000'000 word",
        "'a' word",
        "/ word",
        "a /word",
        "xR\"(\" word",
        "R\"a\" word ( )a\"",
        "\"open\nword",
        "u8R\"(x)\"word",
        "// \\ \nword",
    };
    static const char *const without[] = {
        "",
        "wor",
        "words",
        "sword",
        "word9",
        "_word",
        "9word",
        "0xword",
        "\"word\"",
        "'word'",
        "// word",
        "// x \\\n word",
        "// x \\\r\n word",
        "/* word */",
        "/* word",
        "R\"( \" word )\"",
        "LR\"t( )\" word )t\"",
        "R\"(word",
        "\"a\\\" word\"",
        "1'word",
        "/*/ word */",
    };
    for (size_t i = 0; i < ARRAY_SIZE(with); i++)
        cr_expect(code_names(text_of(with[i]), "word"), "case %zu: %s", i, with[i]);
    for (size_t i = 0; i < ARRAY_SIZE(without); i++)
        cr_expect_not(code_names(text_of(without[i]), "word"), "case %zu: %s", i, without[i]);
}

Test(names, C_identifiers)
{
    cr_expect(is_identifier(TEXT_OF("_aZ9")));
    cr_expect_not(is_identifier(TEXT_OF("")));
    cr_expect_not(is_identifier(TEXT_OF("9a")));
    cr_expect_not(is_identifier(TEXT_OF("a-b")));
    cr_expect_not(is_identifier(TEXT_OF("a b")));
    cr_expect_not(is_identifier((struct text){"a\0b", 3}));
    cr_expect_not(is_identifier(TEXT_OF("\xc3\xa9")));
}
