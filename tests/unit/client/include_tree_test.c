/* Include trees in folders of the test's own. */
#include <criterion/criterion.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/fusion.h"

static char root[64];
static struct fusiond_fusion *fusion;
static struct fusiond_error error;

static char *at(const char *name)
{
    static char paths[8][256];
    static unsigned n;
    char *path = paths[n++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", root, name);
    return path;
}

static void setup(void)
{
    snprintf(root, sizeof root, "/tmp/fusiond-tree-XXXXXX");
    cr_assert_not_null(mkdtemp(root));
    fusion = fusiond_fusion_create();
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
    (void)status, (void)type, (void)ftw;
    return remove(path);
}

static void teardown(void)
{
    fusiond_fusion_destroy(fusion);
    nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

TestSuite(include_tree, .init = setup, .fini = teardown);

static void put(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s", at(name));
    for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = '\0';
        mkdir(path, 0700);
    }
    FILE *out = fopen(path, "w");
    cr_assert(out && fputs(text, out) >= 0 && fclose(out) == 0);
}

static int collect(const char *code)
{
    const char *const folders[] = {at("inc"), at("more")};
    cr_assert_eq(fusiond_fusion_set_code(fusion, code, strlen(code), true, NULL), 0);
    return fusiond_fusion_add_include_tree(fusion, at("src/k.cu"), folders, 2, &error);
}

static void expect_code(const char *code, const char *expected)
{
    cr_assert_eq(collect(code), 0, "%s", error.text);
    cr_assert(fusion->code_size == strlen(expected) && memcmp(fusion->code, expected, fusion->code_size) == 0, "%.*s",
              (int)fusion->code_size, fusion->code);
}

static void expect_header(const char *name, const char *text)
{
    for (size_t i = 0; i < fusion->n_headers; i++) {
        const struct fusion_header *header = &fusion->headers[i];
        if (strcmp(header->name, name) != 0)
            continue;
        cr_assert(header->size == strlen(text) && memcmp(header->bytes, text, header->size) == 0, "%.*s",
                  (int)header->size, (const char *)header->bytes);
        return;
    }
    cr_assert_fail("no header %s", name);
}

static void expect_failure(const char *code, const char *words)
{
    cr_assert_eq(collect(code), -1);
    cr_assert_eq(error.code, FUSIOND_INVALID_FILE);
    cr_assert(strstr(error.text, words), "%s", error.text);
}

Test(include_tree, all_that_is_included_by_one_name_each)
{
    put("inc/a/b.h", "#include \"c.h\"\n#include \"../d.h\"\n#include <e.h>\n");
    put("inc/a/c.h", "int c;\n");
    put("inc/d.h", "#include \"a/b.h\"\n"); /* a cycle */
    put("more/e.h", "#include <cuda_fp16.h>\n#include <vector>\n");
    put("src/own.h", "int own;\n");
    expect_code("#include <a/b.h>\n#include \"own.h\"\n#include \"fusiond/types.cuh\"\n",
                "#include <a/b.h>\n#include \"own.h\"\n#include \"fusiond/types.cuh\"\n");
    cr_assert_eq(fusion->n_headers, 5);
    expect_header("a/b.h", "#include \"a/c.h\"\n#include \"d.h\"\n#include <e.h>\n");
    expect_header("a/c.h", "int c;\n");
    expect_header("d.h", "#include \"a/b.h\"\n");
    expect_header("own.h", "int own;\n");
}

Test(include_tree, spellings_become_the_name)
{
    put("inc/a/b.h", "");
    expect_code("#include \"./a//b.h\"\n#include <a/../a/b.h>\n#if __has_include(<a/./b.h>)\n#endif\n#inc\\\nlude "
                "<a\\\n//b.h>\nint x;\n",
                "#include \"a/b.h\"\n#include \"a/b.h\"\n#if __has_include(\"a/b.h\")\n#endif\n#inc\\\nlude "
                "\"a/b.h\"\\\n\nint x;\n");
    cr_assert_eq(fusion->n_headers, 1);
}

Test(include_tree, a_link_is_what_it_leads_to)
{
    put("inc/real.h", "#pragma once\n");
    cr_assert_eq(symlink("real.h", at("inc/link.h")), 0);
    cr_assert_eq(symlink("gone.h", at("inc/dangling.h")), 0);
    expect_code("#include <real.h>\n#include <link.h>\n#include <dangling.h>\n",
                "#include <real.h>\n#include \"real.h\"\n#include <dangling.h>\n");
    cr_assert_eq(fusion->n_headers, 1);
}

Test(include_tree, next_goes_on_behind_the_folder)
{
    put("inc/x.h", "#include_next <x.h>\n#if __has_include_next(<x.h>)\n#endif\n");
    put("more/x.h", "int second;\n");
    expect_code("#include <x.h>\n", "#include <x.h>\n");
    cr_assert_eq(fusion->n_headers, 2);
    char name[600], text[1400];
    snprintf(name, sizeof name, "%s", fusion->headers[1].name);
    cr_assert(strncmp(name, "include-tree/", 13) == 0, "%s", name);
    snprintf(text, sizeof text, "#include \"%s\"\n#if __has_include(\"%s\")\n#endif\n", name, name);
    expect_header("x.h", text);
    expect_header(name, "int second;\n");
}

Test(include_tree, conditions_and_macros_collect_too_much_rather_than_too_little)
{
    put("inc/a.h", "");
    put("inc/b.h", "");
    expect_code("#if 0\n#include <a.h>\n#include \"missing.h\"\n#endif\n#define B <b.h>\n#include B\n",
                "#if 0\n#include <a.h>\n#include \"missing.h\"\n#endif\n#define B <b.h>\n#include B\n");
    cr_assert_eq(fusion->n_headers, 2);
}

Test(include_tree, headers_that_are_there_already_stay)
{
    put("inc/a.h", "int of_the_folder;\n");
    cr_assert_eq(fusiond_fusion_add_header(fusion, "a.h", "int mine;\n", 10, &error), 0);
    expect_code("#include <a.h>\n", "#include <a.h>\n");
    cr_assert_eq(fusion->n_headers, 1);
    expect_header("a.h", "int mine;\n");
}

Test(include_tree, what_is_missing_is_named_with_who_includes_it)
{
    put("inc/a.h", "\n\n#include \"zz/missing.h\"\n");
    expect_failure("#include <a.h>\n", "inc/a.h:3: includes \"zz/missing.h\", which is neither");
    cr_assert_eq(fusion->n_headers, 0, "nothing is changed");
    cr_assert_eq(fusion->code_size, strlen("#include <a.h>\n"));
}

Test(include_tree, F28_what_is_no_regular_file_is_refused)
{
    mkdir(at("inc"), 0700);
    cr_assert_eq(mkfifo(at("inc/pipe.h"), 0600), 0);
    expect_failure("#include <pipe.h>\n", "src/k.cu:1: includes \"pipe.h\"");
    expect_failure("#include \"/dev/zero\"\n", "/dev/zero is no regular file");
    mkdir(at("inc/folder.h"), 0700);
    put("more/folder.h", "");
    expect_code("#include <folder.h>\n", "#include <folder.h>\n");
}

Test(include_tree, limits)
{
    put("inc/large.h", "");
    cr_assert_eq(truncate(at("inc/large.h"), (64 << 20) + 1), 0);
    expect_failure("#include <large.h>\n", "above the limit of 67108864");
    put("inc/one.h", "");
    put("inc/two.h", "");
    cr_assert_eq(truncate(at("inc/one.h"), 60 << 20), 0);
    cr_assert_eq(truncate(at("inc/two.h"), 60 << 20), 0);
    expect_failure("#include <one.h>\n#include <two.h>\n", "more than 100663296 bytes");
}

Test(include_tree, names_do_not_tell_where_the_tree_is)
{
    put("inc/a/b.h", "#include \"c.h\"\n");
    put("inc/a/c.h", "int c;\n");
    expect_code("#include <a/b.h>\n", "#include <a/b.h>\n");
    cr_assert_eq(fusion->n_headers, 2);
    cr_assert_str_eq(fusion->headers[0].name, "a/b.h");
    cr_assert_str_eq(fusion->headers[1].name, "a/c.h");
}
