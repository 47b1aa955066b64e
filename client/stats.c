#include "client/stats.h"

#include <stdlib.h>
#include <string.h>

#include "client/connection.h"
#include "client/error.h"

int fusiond_ping(struct fusiond_connection *connection, struct fusiond_error *ret_error)
{
    struct error error = {0};
    struct reply reply;
    /* A request without fields is encoded from nothing. */
    int result = connection_call(connection, METHOD_PING, NULL, NULL, 0, &reply, &error);
    if (result == 0)
        result = channel_expect_fds(&connection->channel, 0, &error);
    return error_export(result, &error, ret_error);
}

int fusiond_stats(struct fusiond_connection *connection, struct fusiond_stats **ret, struct fusiond_error *ret_error)
{
    struct error error = {0};
    struct fusiond_stats *stats = calloc(1, sizeof *stats);
    int result;
    if (!stats || !(stats->zone = msgpack_zone_new(4096)))
        result = error_set(&error, STATUS_OUT_OF_MEMORY, "no memory for statistics");
    else
        result = connection_ask(connection, METHOD_STATS, NULL, stats->zone, &stats->message, &error);
    if (result < 0)
        fusiond_stats_destroy(stats);
    else
        *ret = stats;
    return error_export(result, &error, ret_error);
}

void fusiond_stats_destroy(struct fusiond_stats *stats)
{
    if (!stats)
        return;
    if (stats->zone)
        msgpack_zone_free(stats->zone);
    free(stats);
}

/* The index-th number of the message; NULL past the end. Absent ones count as 0. */
static const struct message_field *number_at(size_t index)
{
    for (size_t i = 0; i < stats_reply_type.n_fields; i++) {
        const struct message_field *field = &stats_reply_type.fields[i];
        if (field->kind == FIELD_NUMBER && index-- == 0)
            return field;
    }
    return NULL;
}

bool fusiond_stats_at(const struct fusiond_stats *stats, size_t index, const char **ret_name, uint64_t *ret_value)
{
    const struct message_field *field = number_at(index);
    if (!field)
        return false;
    *ret_name = field->name;
    memcpy(ret_value, (const char *)&stats->message + field->offset, sizeof *ret_value);
    return true;
}

bool fusiond_stats_get(const struct fusiond_stats *stats, const char *name, uint64_t *ret)
{
    const char *candidate;
    uint64_t value;
    for (size_t i = 0; fusiond_stats_at(stats, i, &candidate, &value); i++) {
        if (strcmp(candidate, name) == 0) {
            *ret = value;
            return true;
        }
    }
    return false;
}

size_t fusiond_stats_degraded(const struct fusiond_stats *stats)
{
    return stats->message.n_degraded;
}

const char *fusiond_stats_degraded_at(const struct fusiond_stats *stats, size_t index)
{
    return stats->message.degraded[index].at;
}
