/* Who could see the name of a kernel: everything in a fusion that forbids another one in its place. */
#ifndef DAEMON_RESOLVE_SIGHTINGS_H
#define DAEMON_RESOLVE_SIGHTINGS_H

#include "daemon/resolve/candidates.h"

/* Look through headers, definitions, the preamble's modules and the code; notes in the candidates what stays and why,
 * and counts what is to be replaced. -1 with OUT_OF_MEMORY. */
int sightings_look(struct candidates *candidates, struct error *error);

#endif
