#include "daemon/resolve/zone.h"

#include <stdarg.h>
#include <string.h>

void *zone_array(msgpack_zone *zone, size_t count, size_t size, struct error *error)
{
    size_t bytes;
    void *array = NULL;
    if (!__builtin_mul_overflow(count ? count : 1, size, &bytes))
        array = msgpack_zone_malloc(zone, bytes);
    if (!array) {
        error_set(error, STATUS_OUT_OF_MEMORY, "resolve: no memory for %zu items of %zu bytes", count, size);
        return NULL;
    }
    return memset(array, 0, bytes);
}

int zone_format(msgpack_zone *zone, struct text *ret, struct error *error, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int size = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (size < 0)
        return error_set(error, STATUS_INTERNAL, "resolve: a text cannot be formatted");

    char *at = zone_array(zone, (size_t)size + 1, 1, error);
    if (!at)
        return -1;
    va_start(args, format);
    vsnprintf(at, (size_t)size + 1, format, args);
    va_end(args);
    *ret = (struct text){at, (size_t)size};
    return 0;
}

const char *text_printable(struct text text, char ret[PRINTABLE])
{
    static const char more[] = "...";
    size_t room = PRINTABLE - sizeof more;
    size_t n = text.size < room ? text.size : room;
    for (size_t i = 0; i < n; i++)
        ret[i] = (text.at[i] >= ' ' && text.at[i] <= '~') ? text.at[i] : '?';
    memcpy(ret + n, n < text.size ? more : "", n < text.size ? sizeof more : 1);
    return ret;
}
