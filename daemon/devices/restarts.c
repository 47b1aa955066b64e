#include "daemon/devices/restarts.h"

#include <stdio.h>
#include <stdlib.h>

#define PAUSE_MS 50ull
#define MAX_PAUSE_MS 5000ull

void restarts_init(struct restarts *restarts)
{
    list_init(&restarts->troubles);
}

static void forget(struct trouble *trouble)
{
    list_remove(&trouble->link);
    free(trouble);
}

void restarts_finish(struct restarts *restarts)
{
    while (!list_empty(&restarts->troubles))
        forget(container_of(restarts->troubles.next, struct trouble, link));
}

static struct trouble *find(const struct restarts *restarts, const struct device_id *device)
{
    for (struct list *link = restarts->troubles.next; link != &restarts->troubles; link = link->next) {
        struct trouble *trouble = container_of(link, struct trouble, link);
        if (device_id_equal(&trouble->device, device))
            return trouble;
    }
    return NULL;
}

void restarts_note_failure(struct restarts *restarts, const struct device_id *device, uint64_t now_ms, const char *why)
{
    struct trouble *trouble = find(restarts, device);
    if (!trouble) {
        trouble = calloc(1, sizeof *trouble);
        if (!trouble)
            return; /* the next start comes without a pause */
        trouble->device = *device;
        list_push(&restarts->troubles, &trouble->link);
    }
    uint64_t pause = PAUSE_MS << (trouble->failed < 8 ? trouble->failed : 8);
    trouble->failed++;
    trouble->until_ms = now_ms + (pause < MAX_PAUSE_MS ? pause : MAX_PAUSE_MS);
    snprintf(trouble->reason, sizeof trouble->reason, "%s", why);
}

void restarts_note_success(struct restarts *restarts, const struct device_id *device)
{
    struct trouble *trouble = find(restarts, device);
    if (trouble)
        forget(trouble);
}

const struct trouble *restarts_paused(const struct restarts *restarts, const struct device_id *device, uint64_t now_ms)
{
    const struct trouble *trouble = find(restarts, device);
    return trouble && trouble->until_ms > now_ms ? trouble : NULL;
}
