/* The compiler's log as text: lines, valid UTF-8, bounded. */
#ifndef DAEMON_COMPILER_COMPILE_LOG_H
#define DAEMON_COMPILER_COMPILE_LOG_H

#include <msgpack.h>
#include <stdbool.h>
#include <stddef.h>

#include "proto/message.h"

/* The next line, without its end. false when there is none. */
bool log_next_line(struct text *rest, struct text *ret_line);

/* Replace, in place, bytes that are not UTF-8 by '?': quoted source text may hold anything. */
void log_make_utf8(char *at, size_t size);

/* Replace, in place, a name by another one that is not longer. Returns the new size. */
size_t log_rename(char *at, size_t size, struct text name, const char *by);

/* The largest size <= limit that does not end inside a character. */
size_t log_cut_size(struct text text, size_t limit);

/* The log in the zone: whole if it has at most LIMIT_LOG bytes, else its beginning and a last line that says how much
 * was cut, together at most LIMIT_LOG bytes. NULL when memory ran out. */
const char *log_bound(struct text log, msgpack_zone *zone, size_t *ret_size, bool *ret_cut);

#endif
