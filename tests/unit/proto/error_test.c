/* The error table, and how texts are put together. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "proto/error.h"

static const struct {
    unsigned number;
    bool retryable;
    const char *name, *sentence;
} table[] = {
#define ERROR(name, number, retryable, sentence) {number, retryable, #name, sentence},
#include "proto/errors.def"
#undef ERROR
};
#define ROWS (sizeof table / sizeof table[0])

Test(error, numbers_and_names_are_unique_and_fit_the_wire)
{
    for (size_t i = 0; i < ROWS; i++) {
        cr_assert(table[i].number > 0 && table[i].number <= 0xffff, "%s", table[i].name);
        cr_assert_lt(strlen(table[i].name), 64, "%s", table[i].name);
        for (size_t j = 0; j < i; j++) {
            cr_assert_neq(table[i].number, table[j].number, "%s and %s", table[i].name, table[j].name);
            cr_assert_str_neq(table[i].name, table[j].name);
        }
    }
}

Test(error, every_row_can_be_looked_up)
{
    for (size_t i = 0; i < ROWS; i++) {
        enum status code = (enum status)table[i].number;
        cr_assert_str_eq(status_name(code), table[i].name);
        cr_assert_str_eq(status_sentence(code), table[i].sentence);
        cr_assert_eq(status_retryable(code), table[i].retryable);
        cr_assert(status_known(table[i].number));
    }
    cr_assert_str_eq(status_name(STATUS_OK), "OK");
    cr_assert_str_eq(status_sentence(STATUS_OK), "No error.");
}

Test(error, a_number_from_elsewhere_is_unknown)
{
    static const unsigned long long numbers[] = {0xffff, 0x100000000ull, 0x100000001ull, ~0ull};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        cr_assert_not(status_known(numbers[i]), "%llu", numbers[i]);
    cr_assert_not(status_known(0), "0 is not an error");
    cr_assert_str_eq(status_name((enum status)0xffff), "UNKNOWN");
    cr_assert_str_eq(status_sentence((enum status)0xffff), "An error that this version does not know.");
    cr_assert_not(status_retryable((enum status)0xffff));
}

Test(error, set_fills_code_and_text)
{
    struct error error = {0};
    cr_assert_eq(error_set(&error, STATUS_BUSY, "%d jobs of %d", 5, 4), -1);
    cr_assert_eq(error.code, STATUS_BUSY);
    cr_assert_str_eq(error.text, "5 jobs of 4");
    cr_assert_eq(error_set(NULL, STATUS_BUSY, "nobody asks"), -1);
    cr_assert_eq(error_wrap(NULL, "nobody asks"), -1);
    cr_assert_eq(error_set_errno(NULL, STATUS_SYSTEM, ENOENT, "nobody asks"), -1);
}

Test(error, set_cuts_a_long_text)
{
    struct error error = {0};
    char text[2 * ERROR_TEXT];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    error_set(&error, STATUS_INTERNAL, "%s", text);
    cr_assert_eq(strlen(error.text), ERROR_TEXT - 1);
}

Test(error, wrap_puts_what_was_done_in_front)
{
    struct error error = {0};
    error_set(&error, STATUS_DATABASE, "disk full");
    cr_assert_eq(error_wrap(&error, "kernel %d", 7), -1);
    cr_assert_eq(error_wrap(&error, "commit"), -1);
    cr_assert_eq(error.code, STATUS_DATABASE);
    cr_assert_str_eq(error.text, "commit: kernel 7: disk full");
}

Test(error, wrap_cuts_at_every_length)
{
    char what[2 * ERROR_TEXT];
    for (size_t n = 0; n < sizeof what; n++) {
        struct error error = {0};
        memset(what, 'w', n);
        what[n] = '\0';
        error_set(&error, STATUS_DATABASE, "reason");
        error_wrap(&error, "%s", what);
        size_t whole = n + strlen(": reason");
        if (whole < ERROR_TEXT)
            cr_assert_str_eq(error.text + n, ": reason");
        cr_assert_leq(strlen(error.text), ERROR_TEXT - 1);
        cr_assert_geq(strlen(error.text), whole < ERROR_TEXT ? whole : ERROR_TEXT - 3, "%zu", n);
    }
}

Test(error, errno_is_named_and_explained)
{
    struct error error = {0};
    cr_assert_eq(error_set_errno(&error, STATUS_SYSTEM, ENOENT, "open %s", "/x"), -1);
    cr_assert_eq(error.code, STATUS_SYSTEM);
    cr_assert_str_eq(error.text, "open /x: No such file or directory (ENOENT)");
    error_set_errno(&error, STATUS_SYSTEM, 99999, "call");
    cr_assert_str_eq(error.text, "call: errno 99999");
}

/* The reason is what a reader needs most, so it stays whole and the text before it is cut. */
Test(error, errno_survives_a_text_of_every_length)
{
    static const char reason[] = ": No space left on device (ENOSPC)";
    char what[2 * ERROR_TEXT];
    for (size_t n = 0; n < sizeof what; n++) {
        struct error error = {0};
        memset(what, 'w', n);
        what[n] = '\0';
        error_set_errno(&error, STATUS_SYSTEM, ENOSPC, "%s", what);
        size_t whole = n + strlen(reason);
        cr_assert_eq(strlen(error.text), whole < ERROR_TEXT ? whole : ERROR_TEXT - 1, "%zu", n);
        cr_assert_str_eq(error.text + strlen(error.text) - strlen(reason), reason, "%zu", n);
    }
}
