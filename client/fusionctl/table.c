#include "client/fusionctl/table.h"

#include <stdio.h>
#include <string.h>

#include "client/fusionctl/print.h"

/* Columns a text takes: bytes that do not continue a UTF-8 character. */
static size_t width_of(const char *text)
{
    size_t width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

static void fill_row(void (*fill)(const void *data, size_t index, struct table_row *row), const void *data,
                     size_t index, struct table_row *row)
{
    for (size_t c = 0; c < TABLE_COLUMNS; c++)
        row->cells[c] = "";
    fill(data, index, row);
}

/* The last column is not padded. */
static void print_cells(const char *const *cells, size_t n_columns, const size_t *widths)
{
    for (size_t c = 0; c + 1 < n_columns; c++)
        printf("%s%*s  ", cells[c], (int)(widths[c] - width_of(cells[c])), "");
    fputs(cells[n_columns - 1], stdout);
}

void table_print(const char *const *titles, size_t n_columns, size_t n,
                 void (*fill)(const void *data, size_t index, struct table_row *row), const void *data)
{
    size_t widths[TABLE_COLUMNS];
    struct table_row row;
    for (size_t c = 0; c < n_columns; c++)
        widths[c] = width_of(titles[c]);
    for (size_t i = 0; i < n; i++) {
        fill_row(fill, data, i, &row);
        for (size_t c = 0; c < n_columns; c++) {
            size_t width = width_of(row.cells[c]);
            widths[c] = width > widths[c] ? width : widths[c];
        }
    }
    bool colours = print_colours(stdout);
    fputs(colours ? "\033[1m" : "", stdout);
    print_cells(titles, n_columns, widths);
    puts(colours ? "\033[0m" : "");
    for (size_t i = 0; i < n; i++) {
        fill_row(fill, data, i, &row);
        print_cells(row.cells, n_columns, widths);
        putchar('\n');
    }
}
