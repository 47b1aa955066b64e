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
    return number != STATUS_OK && row_of(number) != NULL;
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
        const char *name = strerrorname_np(number);
        if (name)
            snprintf(reason, sizeof reason, ": %s (%s)", strerrordesc_np(number), name);
        else
            snprintf(reason, sizeof reason, ": errno %d", number);
        error->code = code;
        va_start(args, format);
        vsnprintf(error->text, sizeof error->text, format, args);
        va_end(args);
        /* The reason stays whole; a text that leaves it no room is cut. */
        size_t used = strlen(error->text);
        size_t most = sizeof error->text - 1 - strlen(reason);
        size_t at = used < most ? used : most;
        snprintf(error->text + at, sizeof error->text - at, "%s", reason);
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
        size_t room = sizeof text - 1 - used;
        size_t size = strlen(error->text);
        if (room > 2) {
            memcpy(text + used, ": ", 2);
            size = size < room - 2 ? size : room - 2;
            memcpy(text + used + 2, error->text, size);
            text[used + 2 + size] = '\0';
        }
        memcpy(error->text, text, sizeof text);
    }
    return -1;
}
