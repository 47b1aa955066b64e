/* What a run adds to a dump: how the kernel was launched. */
#ifndef CLIENT_FUSIONCTL_RUN_DUMP_H
#define CLIENT_FUSIONCTL_RUN_DUMP_H

#include <jansson.h>

#include "client/fusionctl/run_report.h"

/* Launch parameters, index type and arguments; what is not known says why. The caller's to release. */
json_t *run_dump_launch(const struct run_report *report);

#endif
