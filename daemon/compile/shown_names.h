/* Keys of programs whose images turned out to show the names of their kernels where none can be put in: they are
 * compiled with the names in their keys. Remembered while the daemon runs; whoever is forgotten is found out again. */
#ifndef DAEMON_COMPILE_SHOWN_NAMES_H
#define DAEMON_COMPILE_SHOWN_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels_db/kernel_key.h"

#define SHOWN_NAMES_MAX 256u

/* Embedded in its owner; zeroed, it is empty. */
struct shown_names {
    uint8_t keys[SHOWN_NAMES_MAX][KEY_SIZE];
    size_t n;
    size_t next; /* to be overwritten, once it is full */
};

void shown_names_add(struct shown_names *shown, const uint8_t key[KEY_SIZE]);
bool shown_names_have(const struct shown_names *shown, const uint8_t key[KEY_SIZE]);

#endif
