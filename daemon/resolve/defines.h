/* Preprocessor definitions that a client may add. */
#ifndef DAEMON_RESOLVE_DEFINES_H
#define DAEMON_RESOLVE_DEFINES_H

#include "proto/message.h"

/* INVALID_OPTION unless each name is a C identifier that neither the daemon nor the compiler sets, no name is given
 * twice and no value has a control character other than a tab, or something that would take in the next line:
 * a backslash at its end, the beginning of a block comment, the beginning of a raw string. */
int defines_check(const struct compile_options *compile, msgpack_zone *zone, struct error *error);

/* What the name stands for: 1 when nothing is given. */
struct text define_value(const struct define *define);

/* "-DNAME=VALUE", one argument. */
int define_write(const char *form, const struct define *define, msgpack_zone *zone, struct text *ret,
                 struct error *error);

#endif
