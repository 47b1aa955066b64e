/* A message of any type with something in every field. */
#ifndef TESTS_UNIT_PROTO_FILL_H
#define TESTS_UNIT_PROTO_FILL_H

#include "proto/message.h"

/* Fill every field, recursively, so that a round trip visits every kind of field. Another salt gives another message.
 * What it points to lives in the zone. */
void fill_message(const struct message_type *type, void *message, msgpack_zone *zone, unsigned salt);

#endif
