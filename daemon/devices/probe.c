#include "daemon/devices/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/devices/naming.h"

/* An executor that is not there may be installed while the daemon runs, a driver be loaded after it. */
#define BACKOFF_MS 1000ull
#define MAX_BACKOFF_MS 60000ull

static void ask(struct probe *probe);

static void on_pause_over(uv_timer_t *timer)
{
    struct probe *probe = timer->data;
    ask(probe);
    if (!probe->process)
        probe->on_change(probe);
}

/* Nothing was told. Whether that, or why, is news. */
static void fail(struct probe *probe, const char *why)
{
    char problem[ERROR_TEXT];
    unsigned shift = probe->failed < 8 ? probe->failed : 8;
    uint64_t ms = BACKOFF_MS << shift;
    probe->failed++;
    uv_timer_start(&probe->pause, on_pause_over, ms < MAX_BACKOFF_MS ? ms : MAX_BACKOFF_MS, 0);
    snprintf(problem, sizeof problem, "the devices are not known: %.440s", why);
    if (strcmp(problem, probe->problem) == 0)
        return;
    memcpy(probe->problem, problem, sizeof probe->problem);
    log_event(LOG_ERROR, "devices.unavailable", "reason=\"%s\"", probe->problem);
}

static void log_facts(const struct executor_ready *facts)
{
    for (size_t i = 0; i < facts->n_devices; i++) {
        const struct device *device = &facts->devices[i];
        char label[DEVICE_LABEL], name[64], uuid[65];
        device_label(device->kind, device->ordinal, label);
        log_event(LOG_INFO, "device", "device=%s name=\"%s\" uuid=%s mps=%d", label,
                  text_show(device->name, name, sizeof name),
                  device->uuid.at ? text_show(device->uuid, uuid, sizeof uuid) : "none", facts->mps);
    }
    for (size_t i = 0; i < facts->n_problems; i++) {
        char problem[400];
        log_event(LOG_INFO, "device.none", "reason=\"%s\"", text_show(facts->problems[i], problem, sizeof problem));
    }
}

static int on_ready(struct executor *executor, const struct executor_ready *ready, msgpack_zone **zone,
                    struct error *ret_error)
{
    struct probe *probe = executor->owner;
    for (size_t i = 0; i < ready->n_devices; i++)
        if (!ready->devices[i].kind)
            return error_set(ret_error, STATUS_MALFORMED, "it tells of a device without its kind");
    bool news = !probe->zone || !message_equal(&executor_ready_type, &probe->facts, ready);
    if (probe->zone)
        msgpack_zone_free(probe->zone);
    probe->zone = *zone;
    *zone = NULL;
    probe->facts = *ready;
    probe->known_ms = uv_now(probe->loop);
    probe->told = true;
    if (news)
        log_facts(&probe->facts);
    executor_release(executor); /* it has nothing more to say */
    return 0;
}

static void on_status(struct executor *executor)
{
    (void)executor;
}

static void on_request(struct executor *executor, const struct envelope *envelope)
{
    (void)executor, (void)envelope;
}

static void finish_if_closed(struct probe *probe);

static void on_gone(struct executor *executor, const struct executor_end *end)
{
    struct probe *probe = executor->owner;
    probe->process = NULL;
    free(executor);
    if (probe->closing) {
        finish_if_closed(probe);
        return;
    }
    if (probe->told) {
        probe->failed = 0;
        probe->problem[0] = '\0';
    } else {
        fail(probe, end->text);
    }
    if (probe->again && probe->told)
        ask(probe);
    probe->on_change(probe);
}

static const struct executor_events events = {on_ready, on_status, on_request, on_gone};

static void ask(struct probe *probe)
{
    char *argv[] = {(char *)probe->program, (char *)"--fd", (char *)"3", (char *)"--probe", NULL};
    struct error error;
    probe->again = probe->told = false;
    struct executor *process = malloc(sizeof *process);
    if (!process) {
        fail(probe, "no memory for a probe");
    } else if (executor_start(process, probe->loop, argv, &events, probe, &error) < 0) {
        free(process);
        fail(probe, error.text);
    } else {
        process->probe = true;
        probe->process = process;
    }
}

void probe_start(struct probe *probe, uv_loop_t *loop, const char *program, void (*on_change)(struct probe *probe))
{
    *probe = (struct probe){.loop = loop, .program = program, .on_change = on_change};
    uv_timer_init(loop, &probe->pause);
    probe->pause.data = probe;
    ask(probe);
}

const struct executor_ready *probe_facts(const struct probe *probe)
{
    return probe->zone ? &probe->facts : NULL;
}

void probe_again(struct probe *probe)
{
    if (probe->closing)
        return;
    if (probe->process)
        probe->again = true;
    else if (!uv_is_active((uv_handle_t *)&probe->pause))
        ask(probe);
}

static void on_pause_closed(uv_handle_t *handle)
{
    struct probe *probe = handle->data;
    if (probe->zone)
        msgpack_zone_free(probe->zone);
    probe->zone = NULL;
    probe->on_closed(probe);
}

static void finish_if_closed(struct probe *probe)
{
    if (!probe->process && !uv_is_closing((uv_handle_t *)&probe->pause))
        uv_close((uv_handle_t *)&probe->pause, on_pause_closed);
}

void probe_close(struct probe *probe, void (*on_closed)(struct probe *probe))
{
    probe->closing = true;
    probe->on_closed = on_closed;
    if (probe->process)
        executor_release(probe->process);
    finish_if_closed(probe);
}
