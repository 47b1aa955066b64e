/* Sending bytes to the daemon once, to be referred to by their digest. */
#ifndef CLIENT_BLOB_H
#define CLIENT_BLOB_H

#include "client/connection.h"

/* Inline when they are small, else in a sealed memfd. */
int blob_put(struct fusiond_connection *connection, const void *bytes, size_t size, uint8_t ret_digest[DIGEST_SIZE],
             struct error *error);

#endif
