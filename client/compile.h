/* A fusion as a compile request, for all that take one. */
#ifndef CLIENT_COMPILE_H
#define CLIENT_COMPILE_H

#include "client/connection.h"
#include "client/fusion.h"

/* Send the request, which is good until it returns. */
typedef int compile_asker(struct fusiond_connection *connection, struct fusiond_fusion *fusion,
                          const struct compile_request *request, void *ret, struct error *error);

/* Make the request and ask. A fusion without a target is for the local device. */
int compile_ask(struct fusiond_connection *connection, struct fusiond_fusion *fusion,
                const struct fusiond_compile_options *options, compile_asker *ask, void *ret, struct error *error);

#endif
