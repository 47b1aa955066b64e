#include <stdarg.h>
#include <stdlib.h>
#include <time.h>

#include "tests/bench/bench.h"

uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double percentile(double *samples, size_t n, double p)
{
    qsort(samples, n, sizeof *samples, by_value);
    size_t at = (size_t)(p * (double)(n - 1) + 0.5);
    return samples[at];
}

void print_head(FILE *out)
{
    fprintf(out, "%-34s %12s %-9s %7s  %s\n", "name", "value", "unit", "ratio", "base");
}

void print_row(FILE *out, const char *name, double value, const char *unit, double base, const char *base_name)
{
    fprintf(out, "%-34s %12.2f %-9s ", name, value, unit);
    if (base > 0)
        fprintf(out, "%7.3f  %s %.2f\n", value / base, base_name, base);
    else
        fprintf(out, "%7s  -\n", "-");
    fflush(out);
}

void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("bench: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}
