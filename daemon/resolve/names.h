/* What entries and include names may look like. */
#ifndef DAEMON_RESOLVE_NAMES_H
#define DAEMON_RESOLVE_NAMES_H

#include "proto/message.h"

/* Whether an entry can be the name of a kernel: identifiers joined by "::", each with template arguments or not:
 * softmax, nvf::softmax, f<float, (4 > 2)>. Template arguments are any of letters, digits, blanks and
 * _:,<>()[]&*+-.!~%'|^= with balanced brackets. The compiler sees the name as part of an expression, so nothing else
 * may get through. NULL, or what is wrong with it, as the end of a sentence: "holds the character 0x3b". */
const char *entry_fault(struct text entry, char scratch[64]);

/* Whether an include name is one that a client may give: a relative path with '/' between its parts, of printable
 * ASCII without quotes, angle brackets and backslashes, without empty, "." and ".." parts, not below "fusiond/" and not
 * "fusion.cu", which are the daemon's. NULL or what is wrong. */
const char *header_fault(struct text name);

#endif
