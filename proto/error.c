#include "proto/error.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct row {
    enum status code;
    bool retryable;
    const char *name;
    const char *sentence;
};

static const struct row rows[] = {
    {STATUS_OK, false, "OK", "No error."},
#define ERROR(name, number, retryable, sentence) {STATUS_##name, retryable, #name, sentence},
#include "proto/errors.def"
#undef ERROR
};

static const struct row *row_of(unsigned long long number)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if ((unsigned long long)rows[i].code == number)
            return &rows[i];
    return NULL;
}

const char *status_name(enum status code)
{
    const struct row *row = row_of((unsigned long long)code);
    return row ? row->name : "UNKNOWN";
}

const char *status_sentence(enum status code)
{
    const struct row *row = row_of((unsigned long long)code);
    return row ? row->sentence : "An error that this version does not know.";
}

bool status_retryable(enum status code)
{
    const struct row *row = row_of((unsigned long long)code);
    return row && row->retryable;
}

bool status_known(unsigned long long number)
{
    return row_of(number) != NULL;
}

int error_set(struct error *error, enum status code, const char *format, ...)
{
    if (error) {
        va_list args;
        error->code = code;
        va_start(args, format);
        vsnprintf(error->text, sizeof error->text, format, args);
        va_end(args);
    }
    return -1;
}

int error_set_errno(struct error *error, enum status code, int number, const char *format, ...)
{
    if (error) {
        va_list args;
        char reason[96];
        error->code = code;
        va_start(args, format);
        vsnprintf(error->text, sizeof error->text, format, args);
        va_end(args);
        const char *name = strerrorname_np(number);
        snprintf(reason, sizeof reason, ": %s (%s)", strerror(number), name ? name : "?");
        size_t used = strlen(error->text);
        size_t room = sizeof error->text - 1 - strlen(reason);
        snprintf(error->text + (used < room ? used : room), sizeof reason, "%s", reason);
    }
    return -1;
}

int error_wrap(struct error *error, const char *format, ...)
{
    if (error) {
        char text[ERROR_TEXT];
        va_list args;
        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, ": %.*s", (int)(sizeof text - used - 3), error->text);
        memcpy(error->text, text, sizeof text);
    }
    return -1;
}
