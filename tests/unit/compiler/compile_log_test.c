/* The log as text: lines, UTF-8, the cut. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/compiler/compile_log.h"

static msgpack_zone zone;

static void setup(void)
{
    msgpack_zone_init(&zone, MSGPACK_ZONE_CHUNK_SIZE);
}

static void teardown(void)
{
    msgpack_zone_destroy(&zone);
}

TestSuite(compile_log, .init = setup, .fini = teardown);

static void expect_renamed(const char *before, const char *after)
{
    char text[64];
    snprintf(text, sizeof text, "%s", before);
    size_t size = log_rename(text, strlen(text), (struct text)TEXT_OF("long.cu"), "s.cu");
    cr_expect(size == strlen(after) && memcmp(text, after, size) == 0, "%.*s", (int)size, text);
}

Test(compile_log, B2_5_names_are_put_back)
{
    expect_renamed("", "");
    expect_renamed("none", "none");
    expect_renamed("long.cu(3): in long.cu", "s.cu(3): in s.cu");
    expect_renamed("long.culong.cu", "s.cus.cu");
    expect_renamed("a long.c", "a long.c");
    char text[] = "ab";
    cr_expect_eq(log_rename(text, 2, (struct text)TEXT_OF("a"), "longer"), 2, "what does not fit stays");
    cr_expect_str_eq(text, "ab");
}

Test(compile_log, lines)
{
    struct text rest = TEXT_OF("one\n\nthree"), line;
    cr_assert(log_next_line(&rest, &line) && line.size == 3 && memcmp(line.at, "one", 3) == 0);
    cr_assert(log_next_line(&rest, &line) && line.size == 0);
    cr_assert(log_next_line(&rest, &line) && line.size == 5 && memcmp(line.at, "three", 5) == 0);
    cr_assert(!log_next_line(&rest, &line));
}

Test(compile_log, utf8)
{
    /* Kept: é, €, an emoji. Replaced: a stray continuation, an overlong slash, a surrogate, a cut character. */
    char log[] = "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 | \x80 \xc0\xaf \xed\xa0\x80 \xe2\x82";
    log_make_utf8(log, sizeof log - 1);
    cr_assert_str_eq(log, "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 | ? ?? ??? ??");
}

Test(compile_log, cut_between_characters)
{
    struct text text = TEXT_OF("ab\xe2\x82\xac");
    cr_assert(log_cut_size(text, 5) == 5);
    cr_assert(log_cut_size(text, 4) == 2);
    cr_assert(log_cut_size(text, 3) == 2);
    cr_assert(log_cut_size(text, 2) == 2);
    cr_assert(log_cut_size(text, 0) == 0);
}

Test(compile_log, whole_at_the_limit)
{
    char *log = malloc(LIMIT_LOG);
    memset(log, 'x', LIMIT_LOG);
    size_t size;
    bool cut = true;
    const char *bound = log_bound((struct text){log, LIMIT_LOG}, &zone, &size, &cut);
    cr_assert(!cut && size == LIMIT_LOG && memcmp(bound, log, size) == 0 && bound[size] == '\0');
    bound = log_bound(TEXT_OF(""), &zone, &size, &cut);
    cr_assert(!cut && size == 0 && bound[0] == '\0');
    free(log);
}

Test(compile_log, F6_cut_and_marked)
{
    enum { SIZE = 5 << 20 };
    char *log = malloc(SIZE);
    size_t size, left_out, whole;
    bool cut = false;
    for (size_t i = 0; i < SIZE; i++)
        log[i] = i % 80 == 79 ? '\n' : 'x';
    const char *bound = log_bound((struct text){log, SIZE}, &zone, &size, &cut);
    cr_assert(cut && size <= LIMIT_LOG && size > LIMIT_LOG - 256 && bound[size] == '\0');
    const char *marker = strstr(bound, "\n[fusiond: log cut here, ");
    cr_assert(marker != NULL);
    cr_assert(sscanf(marker, "\n[fusiond: log cut here, %zu of %zu bytes left out]", &left_out, &whole) == 2);
    cr_assert(whole == SIZE && left_out == SIZE - (size_t)(marker - bound));
    cr_assert((marker - bound) % 80 == 79, "not cut at the end of a line");
    free(log);
}

Test(compile_log, F6_cut_of_one_long_line)
{
    enum { SIZE = 1 << 20 };
    char *log = malloc(SIZE);
    size_t size;
    bool cut = false;
    for (size_t i = 0; i < SIZE; i++)
        log[i] = "\xe2\x82\xac"[i % 3];
    const char *bound = log_bound((struct text){log, SIZE}, &zone, &size, &cut);
    cr_assert(cut && size <= LIMIT_LOG && size > LIMIT_LOG - 256);
    const char *marker = strchr(bound, '\n');
    cr_assert((marker - bound) % 3 == 0, "cut inside a character");
    free(log);
}
