/* Numbers and tables for people. */
#ifndef CLIENT_FUSIONCTL_PRINT_H
#define CLIENT_FUSIONCTL_PRINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define PRINT_ROOM 32

/* "512 B", "12.3 KiB", … */
const char *print_size(uint64_t bytes, char room[PRINT_ROOM]);
/* "850 ns", "12.3 µs", "85 ms", … */
const char *print_time(uint64_t ns, char room[PRINT_ROOM]);
/* "5 s", "3 min", "2 h", "4 d": how long ago a Unix time was; "-" for 0. */
const char *print_age(uint64_t unix_s, char room[PRINT_ROOM]);

/* Whether to colour what goes to `out`: a terminal, and NO_COLOR is unset or empty. */
bool print_colours(FILE *out);

/* A string as a JSON string, with its quotes. */
void print_json_string(const char *text, FILE *out);

#endif
