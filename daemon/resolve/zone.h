/* Small allocations of the resolve step: texts and arrays that live as long as the caller's zone. */
#ifndef DAEMON_RESOLVE_ZONE_H
#define DAEMON_RESOLVE_ZONE_H

#include "proto/message.h"

/* Room for a value in an error text, see text_printable(). */
#define PRINTABLE 64

/* `count` zeroed items of `size` bytes; NULL with OUT_OF_MEMORY. A count of 0 still gives a valid pointer. */
void *zone_array(msgpack_zone *zone, size_t count, size_t size, struct error *error);

/* A formatted text with its NUL. 0, or -1 with OUT_OF_MEMORY. */
int zone_format(msgpack_zone *zone, struct text *ret, struct error *error, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* A peer's text as it may stand in an error: cut to fit, control bytes and bytes above ASCII as '?'. Returns ret. */
const char *text_printable(struct text text, char ret[PRINTABLE]);

#endif
