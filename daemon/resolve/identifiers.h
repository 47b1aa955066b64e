/* Which identifiers a piece of CUDA C++ uses. */
#ifndef DAEMON_RESOLVE_IDENTIFIERS_H
#define DAEMON_RESOLVE_IDENTIFIERS_H

#include <stdbool.h>

#include "proto/message.h"

/* Whether `identifier` is a token of the code. Comments, strings and character literals aside; preprocessor lines
 * count, as they can hold macros that use it. */
bool code_names(struct text code, const char *identifier);

/* Whether the bytes are a C identifier: [A-Za-z_][A-Za-z0-9_]*. */
bool is_identifier(struct text text);

#endif
