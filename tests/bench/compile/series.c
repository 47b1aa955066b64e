/* Samples, and rows of them. */
#include <stdlib.h>

#include "tests/bench/compile/compile.h"

void series_add(struct series *series, double sample)
{
    series->at = realloc(series->at, (series->n + 1) * sizeof *series->at);
    if (!series->at)
        die("no memory for samples");
    series->at[series->n++] = sample;
}

double series_percentile(struct series *series, double p)
{
    return series->n ? percentile(series->at, series->n, p) : 0;
}

void series_finish(struct series *series)
{
    free(series->at);
    *series = (struct series){0};
}

void print_series(const char *name, struct series *series, const char *unit, struct series *base, const char *base_name)
{
    static const struct {
        const char *suffix;
        double p;
    } lines[] = {{"p50", 0.5}, {"p99", 0.99}};
    char row[96], against[96];
    for (size_t i = 0; i < 2; i++) {
        snprintf(row, sizeof row, "%s.%s", name, lines[i].suffix);
        snprintf(against, sizeof against, "%s.%s", base_name, lines[i].suffix);
        print_row(stdout, row, series_percentile(series, lines[i].p), unit,
                  base ? series_percentile(base, lines[i].p) : 0, against);
    }
}
