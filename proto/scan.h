/* A look at the bytes of a frame before anything is allocated for them. */
#ifndef PROTO_SCAN_H
#define PROTO_SCAN_H

#include <stddef.h>
#include <stdint.h>

#include "proto/error.h"

/* 0 when `bytes` is exactly one well-formed MessagePack value within LIMIT_DEPTH, LIMIT_VALUES and LIMIT_MAP, whose
 * declared lengths and counts all fit in the bytes that follow, whose maps have strings of at most LIMIT_KEY bytes as
 * keys, and which holds no extension types. Otherwise -1, MALFORMED, with the offset and the reason. Allocates nothing,
 * and takes a time that is linear in the values. */
int scan(const uint8_t *bytes, size_t size, struct error *error);

/* The bytes that the first value takes; 0 when it is not well-formed. */
size_t scan_skip(const uint8_t *bytes, size_t size);

#endif
