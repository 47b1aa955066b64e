/* From the project's errors to those of the public interface. */
#ifndef CLIENT_ERROR_H
#define CLIENT_ERROR_H

#include "client/fusiond.h"
#include "proto/error.h"

/* Pass a result on: a negative one fills *ret (which may be NULL) from *error. Returns the result. */
int error_export(int result, const struct error *error, struct fusiond_error *ret);

#endif
