/* Elements of any dtype as doubles and back, and random ones: what `fusionctl run` fills and compares. */
#ifndef CLIENT_FUSIONCTL_ELEMENTS_H
#define CLIENT_FUSIONCTL_ELEMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/message.h"

/* Numbers per element: 2 for complex types, real part first. */
unsigned elements_parts(enum dtype dtype);

/* Decode number `i` (counting parts). 64-bit integers above 2^53 are rounded. */
double elements_get(enum dtype dtype, const void *bytes, size_t i);

/* Encode, to nearest with ties to even; integers are truncated, 8-bit floats saturate. */
void elements_put(enum dtype dtype, void *bytes, size_t i, double value);

/* Fill with n numbers that follow from the seed: floats even in [-2, 2), integers in -64 … 63 (unsigned 0 … 127). */
void elements_fill(enum dtype dtype, void *bytes, size_t n, uint64_t seed);

/* A number from a command line or a file into the bytes of one scalar; false when it is none of that type. */
bool elements_parse(enum dtype dtype, const char *text, void *ret);

#endif
