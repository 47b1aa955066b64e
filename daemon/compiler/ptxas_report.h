/* What the assembler says of each entry in its "ptxas info" lines. */
#ifndef DAEMON_COMPILER_PTXAS_REPORT_H
#define DAEMON_COMPILER_PTXAS_REPORT_H

#include <stddef.h>

#include "proto/message.h"

/* Fill registers, stack frame, spills, shared, constant and local memory of the entries whose lowered names the log
 * speaks of. Numbers that the log does not give stay absent: a PTX target has no report, a recent target none of
 * constant memory. Shared memory is 0 where the line that would have it does not. */
void ptxas_report(struct text log, struct kernel_entry *entries, size_t n_entries);

#endif
