/* What went wrong: one code from errors.def and one sentence that says who, what, value, limit. */
#ifndef PROTO_ERROR_H
#define PROTO_ERROR_H

#include <stdarg.h>
#include <stdbool.h>

enum status {
    STATUS_OK = 0,
#define ERROR(name, number, retryable, sentence) STATUS_##name = (number),
#include "proto/errors.def"
#undef ERROR
};

#define ERROR_TEXT 512

struct error {
    enum status code;
    char text[ERROR_TEXT];
};

/* Fill `error` (which may be NULL) and return -1, so that a caller can `return error_set(...)`. The arguments must not
 * point into *error. */
int error_set(struct error *error, enum status code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Put "what: " in front of the text, as an error is passed up to someone who knows more. Returns -1. */
int error_wrap(struct error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same for a failed system call: the text ends with the name and meaning of errno. */
int error_set_errno(struct error *error, enum status code, int number, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* "COMPILE_FAILED"; "UNKNOWN" for a number that is not in the table. */
const char *status_name(enum status code);
/* The table's sentence. */
const char *status_sentence(enum status code);
/* Whether the same request may succeed later. */
bool status_retryable(enum status code);
/* Whether the number is an error of the table (a peer may send any). */
bool status_known(unsigned long long number);

#endif
