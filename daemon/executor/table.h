/* Hash tables (uthash) that say when memory runs out instead of ending the process. */
#ifndef DAEMON_EXECUTOR_TABLE_H
#define DAEMON_EXECUTOR_TABLE_H

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

/* Whether a HASH_ADD just before has added it; else there was no memory, and the table is as it was. */
#define table_has(element) ((element)->hh.tbl != NULL)

#endif
