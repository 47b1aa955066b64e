/* The schema of the kernel database, as an append-only list of steps counted by user_version. */
#ifndef KERNELS_DB_MIGRATIONS_H
#define KERNELS_DB_MIGRATIONS_H

#include <sqlite3.h>

/* "fusn": what file(1) and others find at offset 68 of the file. */
#define MIGRATIONS_APPLICATION_ID 0x6675736e
/* Images are mostly 4 to 40 KiB: larger pages mean shorter overflow chains, and the rows beside them stay in one. */
#define MIGRATIONS_PAGE_SIZE 8192

enum migrations_state {
    MIGRATIONS_CURRENT, /* the schema of this version, or an older one that can be brought up to it */
    MIGRATIONS_NEWER,   /* written by a later version */
    MIGRATIONS_FOREIGN, /* a database of something else */
    MIGRATIONS_UNKNOWN, /* could not be read: *ret_code says why */
};

/* The number of steps, which is the user_version of a current file. */
int migrations_count(void);

/* What kind of file this is; changes nothing. ret_version: its user_version. ret_code: an SQLite result code. */
enum migrations_state migrations_look(sqlite3 *sqlite, int *ret_version, int *ret_code);

/* Run the steps that the file lacks, in one transaction. An SQLite result code. */
int migrations_apply(sqlite3 *sqlite);

#endif
