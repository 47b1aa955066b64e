/* A tensor in a file: NumPy's .npy, or raw little-endian bytes in row-major order. */
#ifndef CLIENT_FUSIONCTL_DATA_FILE_H
#define CLIENT_FUSIONCTL_DATA_FILE_H

#include "daemon/launch/arguments.h"
#include "proto/message.h"

/* Owner: whoever read it. */
struct data_file {
    void *bytes;          /* the whole file; NULL: none */
    const void *elements; /* in it */
    enum dtype dtype;
};

/* Read a tensor of these sizes, which the file must hold exactly. A name that ends with ".npy" is NumPy's format,
 * version 1 to 3: of any number type, in C order, little-endian; an element of raw bytes ("V2", as NumPy saves bfloat16
 * and the 8-bit floats) is a `dtype`. Any other name is raw elements of `dtype`. INVALID_FILE. */
int data_file_read(const char *path, enum dtype dtype, const int64_t *sizes, unsigned rank, struct data_file *ret,
                   struct error *error);
void data_file_finish(struct data_file *file);

#endif
