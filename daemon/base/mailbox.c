#include "daemon/base/mailbox.h"

static void run(void *argument)
{
    struct mailbox *mailbox = argument;
    uv_mutex_lock(&mailbox->lock);
    for (;;) {
        struct list *link = list_pop(&mailbox->waiting);
        if (link) {
            struct mail *mail = container_of(link, struct mail, link);
            uv_mutex_unlock(&mailbox->lock);
            mail->work(mail, mailbox->state);
            uv_mutex_lock(&mailbox->lock);
            list_push(&mailbox->finished, &mail->link);
            uv_async_send(&mailbox->wake);
        } else if (mailbox->stopping) {
            break;
        } else {
            uv_cond_wait(&mailbox->posted, &mailbox->lock);
        }
    }
    uv_mutex_unlock(&mailbox->lock);
    uv_async_send(&mailbox->wake);
}

static void on_wake_closed(uv_handle_t *handle)
{
    struct mailbox *mailbox = container_of(handle, struct mailbox, wake);
    uv_mutex_destroy(&mailbox->lock);
    uv_cond_destroy(&mailbox->posted);
    mailbox->on_stopped(mailbox);
}

static void on_wake(uv_async_t *wake)
{
    struct mailbox *mailbox = container_of(wake, struct mailbox, wake);
    for (;;) {
        uv_mutex_lock(&mailbox->lock);
        struct list *link = list_pop(&mailbox->finished);
        bool over = !link && mailbox->stopping && list_empty(&mailbox->waiting);
        uv_mutex_unlock(&mailbox->lock);
        if (link) {
            struct mail *mail = container_of(link, struct mail, link);
            mail->done(mail);
            continue;
        }
        if (over && !uv_is_closing((uv_handle_t *)wake)) {
            /* The thread may be finishing its last job; joining waits for that, and its result comes first. */
            if (!mailbox->joined) {
                uv_thread_join(&mailbox->thread);
                mailbox->joined = true;
                continue;
            }
            uv_close((uv_handle_t *)wake, on_wake_closed);
        }
        return;
    }
}

int mailbox_start(struct mailbox *mailbox, uv_loop_t *loop, void *state)
{
    *mailbox = (struct mailbox){.state = state};
    list_init(&mailbox->waiting);
    list_init(&mailbox->finished);
    if (uv_async_init(loop, &mailbox->wake, on_wake) < 0)
        return -1;
    uv_mutex_init(&mailbox->lock);
    uv_cond_init(&mailbox->posted);
    return uv_thread_create(&mailbox->thread, run, mailbox);
}

void mailbox_post(struct mailbox *mailbox, struct mail *mail)
{
    uv_mutex_lock(&mailbox->lock);
    list_push(&mailbox->waiting, &mail->link);
    uv_cond_signal(&mailbox->posted);
    uv_mutex_unlock(&mailbox->lock);
}

void mailbox_stop(struct mailbox *mailbox, void (*on_stopped)(struct mailbox *mailbox))
{
    mailbox->on_stopped = on_stopped;
    uv_mutex_lock(&mailbox->lock);
    mailbox->stopping = true;
    uv_cond_signal(&mailbox->posted);
    uv_mutex_unlock(&mailbox->lock);
}
