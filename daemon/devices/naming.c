#include "daemon/devices/naming.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void device_label(enum device_kind kind, uint64_t ordinal, char ret[DEVICE_LABEL])
{
    if (kind == DEVICE_KIND_HOST)
        snprintf(ret, DEVICE_LABEL, "host");
    else
        snprintf(ret, DEVICE_LABEL, "%u", (unsigned)ordinal);
}

/* ---- UUIDs ---- */

static bool is_uuid(const char *text)
{
    return strncmp(text, "GPU-", 4) == 0 || strncmp(text, "MIG-", 4) == 0;
}

/* How many of the characters belong to a UUID without its prefix. */
static size_t uuid_span(const char *text)
{
    return strspn(text, "0123456789abcdefABCDEF-");
}

/* The one CUDA device whose UUID begins so. The prefix does not matter: a GPU and its only instance may be asked for by
 * either. */
static bool find_uuid(const struct device *devices, size_t n, const char *text, size_t *ret)
{
    const char *digits = text + 4;
    size_t size = uuid_span(digits), found = 0;
    if (size == 0 || digits[0] == '-')
        return false;
    for (size_t i = 0; i < n; i++) {
        const char *uuid = devices[i].uuid.at;
        if (devices[i].kind != DEVICE_KIND_CUDA || !uuid || !is_uuid(uuid) || strncasecmp(uuid + 4, digits, size) != 0)
            continue;
        *ret = i;
        found++;
    }
    return found == 1;
}

/* ---- numbers ---- */

/* A bus id as one number, by which it sorts. */
static bool read_bus_id(const struct device *device, unsigned long long *ret)
{
    unsigned domain, bus, slot, function;
    if (!device->pci.at || sscanf(device->pci.at, "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4)
        return false;
    *ret = (unsigned long long)domain << 32 | (bus & 0xff) << 16 | (slot & 0xff) << 8 | (function & 0xff);
    return true;
}

/* All CUDA devices in the order in which the client's CUDA counts them. */
static size_t count_in_order(const struct device *devices, size_t n, const char *order, size_t ret[DEVICES_MAX])
{
    unsigned long long places[DEVICES_MAX];
    bool by_bus = order && strcmp(order, "PCI_BUS_ID") == 0;
    size_t count = 0;
    if (order && !by_bus && strcmp(order, "FASTEST_FIRST") != 0)
        return 0;
    for (size_t i = 0; i < n && count < DEVICES_MAX; i++) {
        unsigned long long place = devices[i].ordinal;
        if (devices[i].kind != DEVICE_KIND_CUDA)
            continue;
        /* Without its bus id a device may be any of them; a wrong one would be worse than none. */
        if (by_bus && !read_bus_id(&devices[i], &place))
            return 0;
        size_t at = count++;
        for (; at > 0 && places[at - 1] > place; at--) {
            places[at] = places[at - 1];
            ret[at] = ret[at - 1];
        }
        places[at] = place;
        ret[at] = i;
    }
    return count;
}

/* A number as strtol reads it: leading space and a sign are fine, and whatever comes behind. */
static bool find_number(const size_t *counted, size_t n_counted, const char *text, size_t *ret)
{
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (end == text || errno || number < 0 || (unsigned long)number >= n_counted)
        return false;
    *ret = counted[number];
    return true;
}

size_t naming_visible(const struct device *devices, size_t n, const struct device_view *view, size_t ret[DEVICES_MAX])
{
    size_t counted[DEVICES_MAX];
    size_t n_counted = count_in_order(devices, n, view->order, counted);
    size_t n_seen = 0;
    const char *entry = view->visible;
    if (!entry) {
        memcpy(ret, counted, n_counted * sizeof *ret);
        return n_counted;
    }
    /* A bad order ends everything, also for UUIDs. */
    bool by_uuid = is_uuid(entry);
    while (n_counted > 0) {
        size_t device;
        bool found = by_uuid ? is_uuid(entry) && find_uuid(devices, n, entry, &device)
                             : find_number(counted, n_counted, entry, &device);
        if (!found)
            break;
        for (size_t i = 0; i < n_seen; i++)
            if (ret[i] == device)
                return 0;
        ret[n_seen++] = device;
        entry = strchr(entry, ',');
        if (!entry)
            break;
        entry++;
    }
    return n_seen;
}

/* ---- names ---- */

static bool find_host(const struct device *devices, size_t n, size_t *ret)
{
    for (size_t i = 0; i < n; i++) {
        if (devices[i].kind != DEVICE_KIND_HOST)
            continue;
        *ret = i;
        return true;
    }
    return false;
}

/* A plain number, nothing else: what a person asks for is not read as loosely as an environment variable. */
static bool is_number(const char *text)
{
    return text[0] && text[strspn(text, "0123456789")] == '\0';
}

struct sentence {
    char *at;
    size_t room;
};

static void say(struct sentence *sentence, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(struct sentence *sentence, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(sentence->at, sentence->room, format, args);
    va_end(args);
    size_t used = n < 0 ? 0 : (size_t)n < sentence->room ? (size_t)n : sentence->room - 1;
    sentence->at += used;
    sentence->room -= used;
}

/* What there is, as the client counts. */
static void describe(const struct device *devices, size_t n, const struct device_view *view, char *ret, size_t room)
{
    size_t seen[DEVICES_MAX], host;
    size_t n_seen = naming_visible(devices, n, view, seen), n_cuda = 0;
    struct sentence sentence = {ret, room};
    char shown[100];
    for (size_t i = 0; i < n; i++)
        n_cuda += devices[i].kind == DEVICE_KIND_CUDA;
    say(&sentence, "there is ");
    for (size_t i = 0; i < n_seen; i++)
        say(&sentence, "%s\"%zu\" (%.60s)", i ? ", " : "", i, devices[seen[i]].name.at);
    if (find_host(devices, n, &host))
        say(&sentence, "%s\"host\"", n_seen ? ", " : "");
    else if (n_seen == 0)
        say(&sentence, "none");
    if (n_seen == n_cuda)
        return;
    say(&sentence, "; of %zu CUDA device%s the client sees %zu", n_cuda, n_cuda == 1 ? "" : "s", n_seen);
    if (view->visible)
        say(&sentence, ", by its CUDA_VISIBLE_DEVICES=%s", text_show(text_of(view->visible), shown, sizeof shown));
    if (view->order)
        say(&sentence, ", by its CUDA_DEVICE_ORDER=%s", text_show(text_of(view->order), shown, sizeof shown));
}

int naming_choose(const struct device *devices, size_t n, const struct device_view *view, struct text name, size_t *ret,
                  struct error *error)
{
    size_t seen[DEVICES_MAX];
    char there[360], shown[80];
    size_t n_seen = naming_visible(devices, n, view, seen);
    if (!name.at) {
        if (n_seen > 0) {
            *ret = seen[0];
            return 0;
        }
        if (find_host(devices, n, ret))
            return 0;
        describe(devices, n, view, there, sizeof there);
        return error_set(error, STATUS_NO_DEVICE, "device: none to choose; %s", there);
    }
    if (strcmp(name.at, "host") == 0 && find_host(devices, n, ret))
        return 0;
    if (is_uuid(name.at) && name.at[4 + uuid_span(name.at + 4)] == '\0' && find_uuid(devices, n, name.at, ret))
        return 0;
    if (is_number(name.at) && find_number(seen, n_seen, name.at, ret))
        return 0;
    describe(devices, n, view, there, sizeof there);
    return error_set(error, STATUS_NO_DEVICE, "device: no \"%s\"; %s", text_show(name, shown, sizeof shown), there);
}
