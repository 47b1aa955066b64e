/* What the daemon's owner may write about a source transform. */
#include "daemon/compile/transform_spec.h"

#include <criterion/criterion.h>
#include <string.h>

static struct transform_spec spec;
static struct error error;

Test(transform_spec, B1_4_name_point_time_program_and_arguments)
{
    cr_assert_eq(transform_spec_parse("fix-div:code /usr/bin/sed  -e s/a/b/", &spec, &error), 0, "%s", error.text);
    cr_assert_str_eq(spec.name, "fix-div");
    cr_assert_eq(spec.point, TRANSFORM_CODE);
    cr_assert_eq(spec.timeout_ms, 5000);
    cr_assert_str_eq(spec.argv[0], "/usr/bin/sed");
    cr_assert_str_eq(spec.argv[1], "-e");
    cr_assert_str_eq(spec.argv[2], "s/a/b/");
    cr_assert_null(spec.argv[3]);
    cr_assert_eq(transform_spec_parse("x:source:250 /bin/cat", &spec, &error), 0, "%s", error.text);
    cr_assert_eq(spec.point, TRANSFORM_SOURCE);
    cr_assert_eq(spec.timeout_ms, 250);
}

Test(transform_spec, B1_4_what_is_wrong_is_named)
{
    static const struct {
        const char *text, *words;
    } wrong[] = {
        {"", "does not begin with a name"},
        {"a b", "neither code nor source"},
        {"na me:code /bin/cat", "neither code nor source"},
        {"n/a:code /bin/cat", "does not begin with a name"},
        {"n:cod /bin/cat", "neither code nor source"},
        {"n:code:0 /bin/cat", "1 to 3600000"},
        {"n:code:1x /bin/cat", "1 to 3600000"},
        {"n:code:5:6 /bin/cat", "does not begin"},
        {"n:code", "names no program"},
        {"n:code cat", "names no program"},
        {"n:code /bin/cat 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17", "too many arguments"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        cr_assert_eq(transform_spec_parse(wrong[i].text, &spec, &error), -1, "%s", wrong[i].text);
        cr_assert(strstr(error.text, wrong[i].words), "%s: %s", wrong[i].text, error.text);
    }
    char large[TRANSFORM_SPEC + 1];
    memset(large, 'a', TRANSFORM_SPEC);
    large[TRANSFORM_SPEC] = '\0';
    cr_assert_eq(transform_spec_parse(large, &spec, &error), -1);
}
