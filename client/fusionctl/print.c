#include "client/fusionctl/print.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

const char *print_size(uint64_t bytes, char room[PRINT_ROOM])
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
    if (bytes < 1024) {
        snprintf(room, PRINT_ROOM, "%u B", (unsigned)bytes);
        return room;
    }
    double value = (double)bytes / 1024.0;
    size_t unit = 0;
    while (value >= 1000.0 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1024.0;
        unit++;
    }
    snprintf(room, PRINT_ROOM, "%.*f %s", value < 100.0 ? 1 : 0, value, units[unit]);
    return room;
}

const char *print_time(uint64_t ns, char room[PRINT_ROOM])
{
    static const char *const units[] = {"ns", "µs", "ms", "s"};
    double value = (double)ns;
    size_t unit = 0;
    while (value >= 1000.0 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1000.0;
        unit++;
    }
    snprintf(room, PRINT_ROOM, "%.*f %s", unit == 0 || value >= 100.0 ? 0 : value < 10.0 ? 2 : 1, value, units[unit]);
    return room;
}

const char *print_age(uint64_t unix_s, char room[PRINT_ROOM])
{
    time_t now = time(NULL);
    if (unix_s == 0) {
        snprintf(room, PRINT_ROOM, "-");
        return room;
    }
    uint64_t age = now > 0 && (uint64_t)now > unix_s ? (uint64_t)now - unix_s : 0;
    if (age < 120)
        snprintf(room, PRINT_ROOM, "%llu s", (unsigned long long)age);
    else if (age < 7200)
        snprintf(room, PRINT_ROOM, "%llu min", (unsigned long long)age / 60);
    else if (age < 172800)
        snprintf(room, PRINT_ROOM, "%llu h", (unsigned long long)age / 3600);
    else
        snprintf(room, PRINT_ROOM, "%llu d", (unsigned long long)age / 86400);
    return room;
}

bool print_colours(FILE *out)
{
    const char *no_color = getenv("NO_COLOR");
    return (!no_color || !*no_color) && isatty(fileno(out));
}

void print_json_string(const char *text, FILE *out)
{
    fputc('"', out);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < 0x20)
            fprintf(out, "\\u%04x", c);
        else
            fputc(c, out);
    }
    fputc('"', out);
}
