#include "daemon/compile/prefix.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* The names, with a space behind each, and the rest of the program. */
static void expect(const char *program, const char *names, const char *rest)
{
    struct prefix prefix;
    struct text name;
    char seen[512];
    size_t used = 0;
    seen[0] = '\0';
    prefix_begin(&prefix, text_of(program));
    while (prefix_next(&prefix, &name))
        used += (size_t)snprintf(seen + used, sizeof seen - used, "%.*s ", (int)name.size, name.at);
    cr_expect_str_eq(seen, names, "of:\n%s\nare: %s", program, seen);
    cr_expect_str_eq(program + prefix.at, rest, "of:\n%s\nthe rest is:\n%s", program, program + prefix.at);
    cr_expect_not(prefix_next(&prefix, &name), "it goes on behind its end");
}

Test(prefix, names_and_what_may_stand_around_them)
{
    expect("#include <a>\n#include \"b/c.h\"\nint x;\n", "<a> \"b/c.h\" ", "int x;\n");
    expect("#include<a>\n  #  include \t<b> \n\n\v\f#include <c>//\n", "<a> <b> <c> ", "");
    expect("// one\n/* two\n * lines */\n#include <a> // why\n#include <b> /* and */ // why\nf", "<a> <b> ", "f");
    expect("/**/ # /**/ include /**/ <a> /**/\n/***/#include <b>\n", "<a> <b> ", "");
    expect("#include <a>\r\n// x\r\n\r\n#include <b>\r\nint x;", "<a> <b> ", "int x;");
    expect("#include <a>", "<a> ", "");
    expect("#include <a> // the end", "<a> ", "");
    expect("// '\"' R\"(\n#include <a>\n", "<a> ", "");
    expect("#include <a b>\n#include \"<c>\"\n#include <\"d\">\n", "<a b> \"<c>\" <\"d\"> ", "");
}

/* Its end is behind the last name, so that what comes between does not matter. */
Test(prefix, ends_with_the_last_include)
{
    expect("#include <a>\n\n// of the kernel\nint x;\n#include <b>\n", "<a> ",
           "\n// of the kernel\nint x;\n#include <b>\n");
    expect("#include <a>\n#define A 1\n#include <b>\n", "<a> ", "#define A 1\n#include <b>\n");
    expect("#include <a>\n#if 1\n#include <b>\n#endif\n", "<a> ", "#if 1\n#include <b>\n#endif\n");
    expect("#include <a>\n#pragma once\n#include <b>\n", "<a> ", "#pragma once\n#include <b>\n");
    expect("#include <a>\n#line 7\n#include <b>\n", "<a> ", "#line 7\n#include <b>\n");
    expect("#include <a>\n#\n#include <b>\n", "<a> ", "#\n#include <b>\n");
    expect("#include <a>\nconst char *s = R\"(\n#include <b>\n)\";\n", "<a> ",
           "const char *s = R\"(\n#include <b>\n)\";\n");
    expect("#include <a>\n;\n#include <b>\n", "<a> ", ";\n#include <b>\n");
}

Test(prefix, a_first_line_that_names_the_program)
{
    expect("#line 1 \"fusion.cu\"\n#include <a>\nint x;", "<a> ", "int x;");
    expect("#line 1 \"fusion.cu\"\nint x;", "", "int x;");
    expect("\n#line 1 \"fusion.cu\"\n#include <a>\n", "", "\n#line 1 \"fusion.cu\"\n#include <a>\n");
    expect("#line 2 \"fusion.cu\"\n#include <a>\n", "", "#line 2 \"fusion.cu\"\n#include <a>\n");
    expect("#include <a>\n#line 1 \"fusion.cu\"\n#include <b>\n", "<a> ", "#line 1 \"fusion.cu\"\n#include <b>\n");
}

Test(prefix, what_is_no_include_with_a_name)
{
    static const char *const programs[] = {
        "",
        "int x;\n",
        "#",
        "#include",
        "#include\n<a>\n",
        "#include A\n",
        "#include <a\n>\n",
        "#include <a",
        "#include \"a\n\"\n",
        "#include \"a'\n",
        "#include <>\n",
        "#include \"\"\n",
        "#include <a> int x;\n",
        "#include <a> \"b\"\n",
        "#include <a> /* two\nlines */\n",
        "#include <a> /*",
        "#include /* two\nlines */ <a>\n",
        "#include_next <a>\n",
        "#included <a>\n",
        "#import <a>\n",
        "#Include <a>\n",
        "%:include <a>\n",
        "?\?=include <a>\n",
        "x #include <a>\n",
        "\"\\\n#include <a>\n",
        "/* never ends\n#include <a>\n",
        "/*/ #include <a>\n",
        "\xef\xbb\xbf#include <a>\n",
        "#include <a//b>\n",
        "#include <a/*b*/>\n",
        "#include <a\tb>\n",
        "import <a>;\n",
    };
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++)
        expect(programs[i], "", programs[i]);
}

/* A line that goes on in the next, or may: the prefix ends before it. */
Test(prefix, lines_that_go_on)
{
    static const char *const odd[] = {
        "#include \\\n<b>\n",
        "#inc\\\nlude <b>\n",
        "#include <b\\\n>\n",
        "#include \"c\\d\"\n",
        "#include <b> \\\n\n",
        "#include <b> // \\\nint x;",
        "#include <b> /* \\\n */\n",
        "// goes on \\\nint x;\n#include <b>\n",
        "/* \\\n */\n#include <b>\n",
        "// goes on ?\?/\nint x;\n#include <b>\n",
        "\\\n#include <b>\n",
        "#include <b>\rint x;\n",
        "// ends? \rint x;\n#include <b>\n",
        "\r#include <b>\n",
    };
    char program[256];
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        snprintf(program, sizeof program, "#include <a>\n%s", odd[i]);
        expect(program, "<a> ", odd[i]);
    }
}

/* Whatever is cut off, the place is within the program, and no name is longer than what is there. */
Test(prefix, any_beginning_of_a_program)
{
    static const char whole[] = "// a\n/* b */ # include <c/d.h> // e\r\n#include \"f\" /* g */\n#define H \\\n 1\n";
    for (size_t size = 0; size < sizeof whole; size++) {
        struct prefix prefix;
        struct text name;
        char *copy = malloc(size ? size : 1); /* of exactly that size, for who reads beyond it */
        cr_assert(copy != NULL);
        memcpy(copy, whole, size);
        prefix_begin(&prefix, (struct text){copy, size});
        while (prefix_next(&prefix, &name))
            cr_expect(name.at >= copy && name.at + name.size <= copy + size);
        cr_expect(prefix.at <= size);
        free(copy);
    }
}
