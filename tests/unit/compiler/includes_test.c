/* What a program may include. */
#include <criterion/criterion.h>
#include <string.h>

#include "daemon/compiler/includes.h"
#include "preamble/preamble.h"

static msgpack_zone zone;

static void setup(void)
{
    msgpack_zone_init(&zone, MSGPACK_ZONE_CHUNK_SIZE);
}

static void teardown(void)
{
    msgpack_zone_destroy(&zone);
}

TestSuite(includes, .init = setup, .fini = teardown);

static struct job_header header(const char *name, const char *bytes, size_t size)
{
    return (struct job_header){.name = text_of(name), .bytes = {(const uint8_t *)bytes, size}};
}

Test(includes, headers_end_with_a_nul)
{
    struct job_header headers[] = {header("a.h", "int a;xxx", 6), header("b/c.h", "", 0)};
    struct includes includes;
    struct error error;
    cr_assert(includes_collect(headers, 2, &zone, &includes, &error) == 0);
    cr_assert(includes.n >= 2);
    cr_assert_str_eq(includes.names[0], "a.h");
    cr_assert_str_eq(includes.texts[0], "int a;");
    cr_assert_str_eq(includes.names[1], "b/c.h");
    cr_assert_str_eq(includes.texts[1], "");
}

/* The compiler would see only what stands before the NUL. */
Test(includes, F28_nul_is_refused)
{
    struct job_header headers[] = {header("a.h", "int a;", 6), header("bad.h", "int\0b;", 6)};
    struct includes includes;
    struct error error = {0};
    cr_assert(includes_collect(headers, 2, &zone, &includes, &error) == -1);
    cr_assert(error.code == STATUS_INVALID_FIELD);
    cr_assert(strstr(error.text, "bad.h") != NULL && strstr(error.text, "offset 3") != NULL, "%s", error.text);
}

Test(includes, missing_bytes_are_refused)
{
    struct job_header headers[] = {{.name = TEXT_OF("later.h")}};
    struct includes includes;
    struct error error = {0};
    cr_assert(includes_collect(headers, 1, &zone, &includes, &error) == -1);
    cr_assert(error.code == STATUS_INVALID_FIELD && strstr(error.text, "later.h") != NULL);
}

static size_t count(const struct includes *includes, const char *name)
{
    size_t n = 0;
    for (size_t i = 0; i < includes->n; i++)
        n += strcmp(includes->names[i], name) == 0;
    return n;
}

Test(includes, modules_by_their_include_names)
{
    struct includes includes;
    struct error error;
    const struct preamble_module *modules = preamble_modules();
    cr_assert(preamble_count > 0);
    cr_assert(includes_collect(NULL, 0, &zone, &includes, &error) == 0);
    cr_assert(includes.n == preamble_count);
    for (size_t i = 0; i < preamble_count; i++)
        cr_assert(count(&includes, modules[i].include) == 1);
}

/* The compiler is never given two files of one name. */
Test(includes, a_header_takes_the_place_of_a_module)
{
    struct includes includes;
    struct error error;
    const char *name = preamble_modules()[0].include;
    struct job_header headers[] = {header(name, "// mine", 7)};
    cr_assert(includes_collect(headers, 1, &zone, &includes, &error) == 0);
    cr_assert(includes.n == preamble_count && count(&includes, name) == 1);
    cr_assert_str_eq(includes.texts[0], "// mine");
}
