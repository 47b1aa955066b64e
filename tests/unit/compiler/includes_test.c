/* What a program may include. */
#include <criterion/criterion.h>
#include <string.h>

#include "daemon/compiler/includes.h"

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

static struct header header(const char *name, const char *bytes, size_t size)
{
    return (struct header){.name = text_of(name), .bytes = {(const uint8_t *)bytes, size}};
}

Test(includes, headers_end_with_a_nul)
{
    struct header headers[] = {header("a.h", "int a;xxx", 6), header("b/c.h", "", 0)};
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
    struct header headers[] = {header("a.h", "int a;", 6), header("bad.h", "int\0b;", 6)};
    struct includes includes;
    struct error error = {0};
    cr_assert(includes_collect(headers, 2, &zone, &includes, &error) == -1);
    cr_assert(error.code == STATUS_INVALID_FIELD);
    cr_assert(strstr(error.text, "bad.h") != NULL && strstr(error.text, "offset 3") != NULL, "%s", error.text);
}

Test(includes, missing_bytes_are_refused)
{
    struct header headers[] = {{.name = TEXT_OF("later.h"), .has_digest = true}};
    struct includes includes;
    struct error error = {0};
    cr_assert(includes_collect(headers, 1, &zone, &includes, &error) == -1);
    cr_assert(error.code == STATUS_INVALID_FIELD && strstr(error.text, "later.h") != NULL);
}
