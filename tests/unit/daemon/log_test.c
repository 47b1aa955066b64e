#include "daemon/base/log.h"

#include <criterion/criterion.h>
#include <string.h>

#include "tests/unit/daemon/pump.h"

static size_t lines_of(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += *text == '\n';
    return n;
}

Test(log, a_line_has_time_level_event_and_pairs)
{
    capture_start();
    log_event(LOG_WARNING, "worker.died", "pid=%d reason=\"%s\"", 12, "killed");
    const char *text = capture_end();
    /* 2026-01-02T03:04:05.678Z warning worker.died pid=12 reason="killed" */
    cr_assert_eq(strcspn(text, "Z"), 23, "%s", text);
    cr_assert_str_eq(text + 24, " warning worker.died pid=12 reason=\"killed\"\n");
}

Test(log, control_characters_do_not_forge_a_line)
{
    capture_start();
    log_event(LOG_INFO, "conn.open", "client=\"%s\"", "a\nerror forged x=1\r\x1b[31m\x7f\t");
    const char *text = capture_end();
    cr_assert_eq(lines_of(text), 1);
    for (const char *c = text; *c && *c != '\n'; c++)
        cr_assert((unsigned char)*c >= 0x20 && *c != 0x7f);
    cr_assert_not_null(strstr(text, "client=\"a error forged x=1  [31m  \"\n"), "%s", text);
}

Test(log, a_long_line_is_cut_and_still_one_line)
{
    char *long_text = malloc(100001);
    memset(long_text, 'x', 100000);
    long_text[100000] = '\0';
    capture_start();
    log_event(LOG_INFO, "long", "text=%s", long_text);
    const char *text = capture_end();
    cr_assert_eq(lines_of(text), 1);
    cr_assert_leq(strlen(text), 2048);
    cr_assert_eq(text[strlen(text) - 1], '\n');
    free(long_text);
}

Test(log, lines_above_the_level_are_dropped)
{
    static const char *const names[] = {"error", "warning", "info", "debug"};
    for (int level = LOG_ERROR; level <= LOG_DEBUG; level++) {
        cr_assert(log_set_level_by_name(names[level]));
        capture_start();
        for (int i = LOG_ERROR; i <= LOG_DEBUG; i++)
            log_event((enum log_level)i, "event", "n=%d", i);
        cr_assert_eq(lines_of(capture_end()), (size_t)level + 1);
    }
}

Test(log, a_level_that_is_none_changes_nothing)
{
    log_set_level(LOG_ERROR);
    cr_assert_not(log_set_level_by_name("loud"));
    cr_assert_not(log_set_level_by_name(""));
    cr_assert_not(log_set_level_by_name("Error"));
    capture_start();
    log_event(LOG_WARNING, "event", "n=1");
    cr_assert_str_eq(capture_end(), "");
}
