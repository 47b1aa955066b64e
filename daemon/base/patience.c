#include "daemon/base/patience.h"

static void on_timer(uv_timer_t *timer)
{
    struct patience *patience = container_of(timer, struct patience, timer);
    if (!patience->held)
        patience->on_late(patience, LATE_FRAME);
    else if (channel_is_held(patience->channel) && patience->held_at == patience->channel->sent_total)
        patience->on_late(patience, LATE_READ);
    else
        patience_watch(patience); /* it has taken some: from now on again */
}

void patience_init(struct patience *patience, uv_loop_t *loop, struct channel *channel,
                   void (*on_late)(struct patience *patience, enum lateness what))
{
    *patience = (struct patience){.channel = channel, .on_late = on_late};
    uv_timer_init(loop, &patience->timer);
}

void patience_frame_ended(struct patience *patience)
{
    uv_timer_stop(&patience->timer);
}

void patience_watch(struct patience *patience)
{
    if (uv_is_closing((uv_handle_t *)&patience->timer))
        return;
    /* While replies wait nothing is read, and a frame is not late; nor is it while the owner pauses the channel. */
    bool held = channel_is_held(patience->channel);
    bool owes = held || (channel_has_partial_frame(patience->channel) && !patience->channel->paused);
    if (!owes) {
        uv_timer_stop(&patience->timer);
    } else if (!uv_is_active((uv_handle_t *)&patience->timer) || (held && !patience->held)) {
        patience->held = held;
        patience->held_at = patience->channel->sent_total;
        uv_timer_start(&patience->timer, on_timer, held ? PATIENCE_READ_MS : PATIENCE_FRAME_MS, 0);
    }
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct patience *patience = container_of(handle, struct patience, timer);
    patience->on_closed(patience);
}

void patience_close(struct patience *patience, void (*on_closed)(struct patience *patience))
{
    patience->on_closed = on_closed;
    uv_close((uv_handle_t *)&patience->timer, on_timer_closed);
}
