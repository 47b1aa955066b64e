#include "client/fusionctl/progress.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

/* Whoever waits for less than this needs to be told nothing. */
#define PATIENCE_S 2

/* The library waits for the answer, so a timer's signal does the talking: it writes texts that were made beforehand. */
static struct {
    const char *what;
    char texts[2][256];
    volatile sig_atomic_t current; /* which of them */
    volatile sig_atomic_t seconds; /* since the beginning */
    volatile sig_atomic_t told;    /* news that was written already */
    volatile sig_atomic_t news;
    volatile sig_atomic_t is_drawn;
    bool is_terminal;
} shown;

static void write_text(const char *text, size_t size)
{
    if (write(STDERR_FILENO, text, size) < 0)
        return; /* nobody reads it: then nobody misses it */
}

/* ", 12 s" without stdio, for a signal handler. */
static size_t write_seconds(char *ret, unsigned seconds)
{
    char digits[16];
    size_t n = 0, used = 0;
    do
        digits[n++] = (char)('0' + seconds % 10);
    while ((seconds /= 10) > 0);
    ret[used++] = ',';
    ret[used++] = ' ';
    while (n > 0)
        ret[used++] = digits[--n];
    ret[used++] = ' ';
    ret[used++] = 's';
    return used;
}

static void on_alarm(int number)
{
    static const char clear[] = "\r\033[K";
    const char *text = shown.texts[shown.current];
    size_t size = strlen(text), used = 0;
    char line[sizeof shown.texts[0] + 48];
    int saved = errno;
    (void)number;
    shown.seconds = shown.seconds == 0 ? PATIENCE_S : shown.seconds + 1;
    if (size == 0 || (!shown.is_terminal && shown.told == shown.news))
        return;
    if (shown.is_terminal) {
        memcpy(line, clear, sizeof clear - 1);
        used = sizeof clear - 1;
    }
    memcpy(line + used, text, size);
    used += size;
    if (shown.is_terminal)
        used += write_seconds(line + used, (unsigned)shown.seconds);
    else
        line[used++] = '\n';
    write_text(line, used);
    shown.told = shown.news;
    shown.is_drawn = shown.is_terminal;
    errno = saved;
}

static void set_timer(unsigned first_s, unsigned then_s)
{
    struct itimerval timer = {.it_value = {.tv_sec = first_s}, .it_interval = {.tv_sec = then_s}};
    setitimer(ITIMER_REAL, &timer, NULL);
}

void progress_begin(const char *what)
{
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    shown.what = what;
    shown.texts[shown.current][0] = '\0';
    shown.seconds = 0;
    shown.told = shown.news = 0;
    shown.is_terminal = isatty(STDERR_FILENO);
    sigaction(SIGALRM, &action, NULL);
    set_timer(PATIENCE_S, 1);
}

void progress_take(void *context, const struct fusiond_progress *progress)
{
    int other = !shown.current;
    char *text = shown.texts[other];
    (void)context;
    if (progress->state == FUSIOND_QUEUED)
        snprintf(text, sizeof shown.texts[0], "%.200s: queued, %u before it", shown.what, progress->ahead);
    else
        snprintf(text, sizeof shown.texts[0], "%.200s: %s", shown.what,
                 progress->state == FUSIOND_STARTED ? "compiling" : "compiled");
    shown.current = other;
    shown.news = shown.news + 1;
}

void progress_end(void)
{
    set_timer(0, 0);
    if (shown.is_drawn)
        write_text("\r\033[K", 4);
    shown.is_drawn = false;
}
