#include "daemon/base/mailbox.h"

#include "tests/unit/daemon/pump.h"

#define MANY 2000

struct job {
    struct mail mail;
    int number;
    int worked; /* when, in the order of the thread; 0: not yet */
    int done;   /* how often */
};

static struct mailbox mailbox;
static struct job jobs[MANY];
static int n_worked, n_done, n_stopped; /* n_worked is the thread's until it has stopped */
static uv_thread_t loop_thread;
static int thread_state;

static void work(struct mail *mail, void *state)
{
    struct job *job = container_of(mail, struct job, mail);
    uv_thread_t self = uv_thread_self();
    cr_assert_eq(state, &thread_state);
    cr_assert_not(uv_thread_equal(&self, &loop_thread));
    job->worked = ++n_worked;
}

static void done(struct mail *mail)
{
    struct job *job = container_of(mail, struct job, mail);
    uv_thread_t self = uv_thread_self();
    cr_assert(uv_thread_equal(&self, &loop_thread));
    cr_assert_eq(n_stopped, 0);
    cr_assert_eq(job->number, n_done, "in order");
    cr_assert_eq(job->worked, job->number + 1);
    job->done++;
    n_done++;
}

static void on_stopped(struct mailbox *which)
{
    cr_assert_eq(which, &mailbox);
    n_stopped++;
}

static void post(int number)
{
    jobs[number] = (struct job){.mail = {.work = work, .done = done}, .number = number};
    mailbox_post(&mailbox, &jobs[number].mail);
}

static void setup(void)
{
    pump_start();
    loop_thread = uv_thread_self();
    cr_assert_eq(mailbox_start(&mailbox, loop, &thread_state), 0);
}

static void stop(void)
{
    mailbox_stop(&mailbox, on_stopped);
    cr_assert_eq(n_stopped, 0, "later");
    pump_until(n_stopped == 1);
    pump_settle();
    cr_assert_eq(n_stopped, 1);
}

TestSuite(mailbox, .init = setup, .fini = pump_finish, .timeout = 60);

Test(mailbox, stopping_without_a_job)
{
    stop();
}

Test(mailbox, jobs_are_done_in_order_and_once)
{
    for (int i = 0; i < MANY; i++)
        post(i);
    cr_assert_eq(n_done, 0, "later, on the loop");
    pump_until(n_done == MANY);
    stop();
    for (int i = 0; i < MANY; i++)
        cr_assert_eq(jobs[i].done, 1);
}

Test(mailbox, posting_one_after_another)
{
    for (int i = 0; i < 100; i++) {
        post(i);
        pump_until(n_done == i + 1);
    }
    stop();
}

Test(mailbox, stopping_finishes_what_is_queued)
{
    for (int i = 0; i < MANY; i++)
        post(i);
    stop();
    cr_assert_eq(n_done, MANY);
    for (int i = 0; i < MANY; i++)
        cr_assert_eq(jobs[i].done, 1);
}

static void done_and_post_next(struct mail *mail)
{
    struct job *job = container_of(mail, struct job, mail);
    done(mail);
    if (job->number + 1 < 50) {
        post(job->number + 1);
        jobs[job->number + 1].mail.done = done_and_post_next;
    }
}

Test(mailbox, posting_from_done)
{
    /* `done` is set after the post above: safe, since only the loop reads it. */
    post(0);
    jobs[0].mail.done = done_and_post_next;
    pump_until(n_done == 50);
    stop();
}

static uv_sem_t gate;

static void wait_at_gate(struct mail *mail, void *state)
{
    uv_sem_wait(&gate);
    work(mail, state);
}

Test(mailbox, stopping_while_a_job_is_under_way)
{
    cr_assert_eq(uv_sem_init(&gate, 0), 0);
    jobs[0] = (struct job){.mail = {.work = wait_at_gate, .done = done}, .number = 0};
    mailbox_post(&mailbox, &jobs[0].mail);
    post(1);
    mailbox_stop(&mailbox, on_stopped);
    pump_settle();
    cr_assert_eq(n_done + n_stopped, 0);
    uv_sem_post(&gate);
    pump_until(n_stopped == 1);
    cr_assert_eq(n_done, 2);
    uv_sem_destroy(&gate);
}
