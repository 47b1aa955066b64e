/* What a text includes: the scanner of include trees. */
#include "client/include_scan.h"

#include <criterion/criterion.h>
#include <string.h>

static struct include_sites sites;

static void scan_text(const char *text)
{
    include_sites_finish(&sites);
    cr_assert_eq(include_scan(text, strlen(text), &sites), 0);
}

static void expect(size_t index, enum include_kind kind, const char *name, unsigned line)
{
    cr_assert(index < sites.n, "only %zu", sites.n);
    cr_assert_str_eq(sites.at[index].name, name);
    cr_assert_eq(sites.at[index].kind, kind, "%s", name);
    cr_assert_eq(sites.at[index].line, line, "%s in line %u", name, sites.at[index].line);
}

static void expect_names(const char *text, const char *names)
{
    char all[256] = "";
    scan_text(text);
    for (size_t i = 0; i < sites.n; i++)
        strcat(strcat(all, i ? " " : ""), sites.at[i].name);
    cr_assert_str_eq(all, names, "%s", text);
}

static void teardown(void)
{
    include_sites_finish(&sites);
}

TestSuite(include_scan, .fini = teardown);

Test(include_scan, quotes_and_angles)
{
    const char *text = "#include \"a.h\"\n  #  include\t<b/c.h> // d\n#include <e.h>\n";
    scan_text(text);
    cr_assert_eq(sites.n, 3);
    expect(0, INCLUDE_PLAIN, "a.h", 1);
    expect(1, INCLUDE_PLAIN, "b/c.h", 2);
    expect(2, INCLUDE_PLAIN, "e.h", 3);
    cr_assert(!sites.at[0].angled && sites.at[1].angled);
    cr_assert_eq(strncmp(text + sites.at[1].from, "<b/c.h>", sites.at[1].to - sites.at[1].from), 0);
}

Test(include_scan, comments)
{
    expect_names("// #include \"a.h\"\n#include \"b.h\"\n", "b.h");
    expect_names("/* \n#include \"a.h\"\n*/ #include \"b.h\"\n", "b.h");
    expect_names("#/* x */include /* \n */ \"b.h\" /*\n#include \"c.h\"\n*/\n", "b.h");
    expect_names("// a \\\n#include \"a.h\"\n#include \"b.h\"", "b.h");
    expect_names("/*/ #include \"a.h\"\n*/\n#include \"b.h\"\n", "b.h");
    expect_names("/* never ends\n#include \"a.h\"\n", "");
}

Test(include_scan, strings_and_characters)
{
    expect_names("const char *s = \"/*\";\n#include \"a.h\"\n// */\n", "a.h");
    expect_names("const char *s = \"\\\"/*\";\n#include \"a.h\"\n", "a.h");
    expect_names("char c = '\"';\n#include \"a.h\"\n", "a.h");
    expect_names("int n = 1'000'000;\n#include \"a.h\"\nint m = 0x1'f;", "a.h");
    expect_names("int x; #include \"a.h\"\n", "");
}

Test(include_scan, raw_strings)
{
    expect_names("auto s = R\"(\n#include \"a.h\"\n)\";\n#include \"b.h\"\n", "b.h");
    expect_names("auto s = u8R\"x(\n)\"\n#include \"a.h\"\n)x\";\n#include \"b.h\"\n", "b.h");
    expect_names("auto s = R\"(\\\n)\";\n#include \"b.h\"\n", "b.h");
    cr_assert_eq(sites.at[0].line, 3);
    expect_names("auto s = FOOR\"(\";\n#include \"b.h\"\n", "b.h");
    expect_names("auto s = R\"(\n#include \"a.h\"\n", "");
}

Test(include_scan, continuation_lines)
{
    scan_text("#inc\\\nlude \\\n  \"a\\\n.h\"\n#include \"b.h\"\n");
    cr_assert_eq(sites.n, 2);
    expect(0, INCLUDE_PLAIN, "a.h", 3);
    expect(1, INCLUDE_PLAIN, "b.h", 5);
    expect_names("#define A \\\n#include \"a.h\"\n", "");
    expect_names("#include \\\r\n\"a.h\"\r\n", "a.h");
}

Test(include_scan, next_and_questions)
{
    const char *text = "#include_next <a.h>\n#if defined(X) && __has_include(<b.h>) || __has_include ( \"c.h\" )\n"
                       "#elif __has_include_next(<d.h>)\n#endif\n";
    scan_text(text);
    cr_assert_eq(sites.n, 4);
    expect(0, INCLUDE_NEXT, "a.h", 1);
    expect(1, INCLUDE_HAS, "b.h", 2);
    expect(2, INCLUDE_HAS, "c.h", 2);
    expect(3, INCLUDE_HAS_NEXT, "d.h", 3);
    cr_assert_eq(strncmp(text + sites.at[0].from, "include_next <a.h>", sites.at[0].to - sites.at[0].from), 0);
    cr_assert_eq(strncmp(text + sites.at[1].from, "<b.h>", sites.at[1].to - sites.at[1].from), 0);
    expect_names("#ifdef __has_include\n#endif\nint __has_include(\"a.h\");\n", "");
}

Test(include_scan, definitions_that_name_a_file)
{
    scan_text("#define A \"a.h\"\n#define B <b.h> // yes\n#define C \"c.h\" x\n#define D(x) \"d.h\"\n#define E 1\n");
    cr_assert_eq(sites.n, 2);
    expect(0, INCLUDE_MACRO, "a.h", 1);
    expect(1, INCLUDE_MACRO, "b.h", 2);
}

Test(include_scan, conditions_are_counted_not_decided)
{
    scan_text("#if 0\n#include \"a.h\"\n#ifdef X\n#else\n#include \"b.h\"\n#endif\n#endif\n#include \"c.h\"\n#endif\n"
              "#include \"d.h\"\n#error don't \"\n#include \"e.h\"\n");
    static const unsigned depths[] = {1, 2, 0, 0, 0};
    cr_assert_eq(sites.n, 5);
    for (size_t i = 0; i < 5; i++)
        cr_assert_eq(sites.at[i].depth, depths[i], "%s", sites.at[i].name);
}

Test(include_scan, what_is_no_name)
{
    expect_names("#include A\n#include \"\"\n#include \"a.h\n#include <b.h\n#include\n#include \"c.h\"", "c.h");
    expect_names("", "");
    expect_names("#", "");
    expect_names("%:include \"a.h\"\n", "a.h");
}
