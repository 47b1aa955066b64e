/* A kernel by the beginning of its key. */
#ifndef CLIENT_FUSIONCTL_FIND_H
#define CLIENT_FUSIONCTL_FIND_H

#include "client/fusiond.h"

/* Fetch the one kernel whose key begins with `prefix` (upper or lower case), or that a line table calls so
 * ("/fusiond-<key>.cu"). -1 when there is none or several. */
int find_kernel(struct fusiond_connection *connection, const char *prefix, unsigned parts, struct fusiond_kernel **ret,
                struct fusiond_error *error);

#endif
