/* A table for people: columns as wide as their widest cell, the titles bold on a terminal. */
#ifndef CLIENT_FUSIONCTL_TABLE_H
#define CLIENT_FUSIONCTL_TABLE_H

#include <stddef.h>

#define TABLE_COLUMNS 8
#define TABLE_CELL 48

/* Fill the cells of a row; each begins as "", and longer ones may be left pointing elsewhere. */
struct table_row {
    const char *cells[TABLE_COLUMNS];
    char rooms[TABLE_COLUMNS][TABLE_CELL]; /* for cells that have to be made */
};

/* Print n rows of n_columns; `fill` is called twice for each. */
void table_print(const char *const *titles, size_t n_columns, size_t n,
                 void (*fill)(const void *data, size_t index, struct table_row *row), const void *data);

#endif
