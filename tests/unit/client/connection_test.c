/* Connecting, calling, reconnecting, cancelling: against a daemon that follows a script. */
#include <criterion/criterion.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/connection.h"
#include "tests/unit/client/peer.h"

static const struct ping_reply *const pong = NULL;

static void answer_ping(struct peer *peer)
{
    uint32_t id = peer_expect(peer, METHOD_PING, NULL);
    peer_reply(peer, id, METHOD_PING, pong, NULL, 0);
}

static struct fusiond_connection *connect_to(const struct peer *peer)
{
    struct fusiond_connection *connection;
    struct fusiond_error error;
    cr_assert_eq(fusiond_connect(peer->path, NULL, &connection, &error), 0, "%s", error.text);
    return connection;
}

static void greet_and_ping_twice(struct peer *peer)
{
    peer_greet(peer);
    answer_ping(peer);
    answer_ping(peer);
    peer_expect_end(peer);
}

Test(connection, greets_and_pings)
{
    struct peer peer;
    struct fusiond_error error;
    peer_start(&peer, greet_and_ping_twice, NULL);
    struct fusiond_connection *connection = connect_to(&peer);
    cr_assert_str_eq(fusiond_version(connection), "9.9.9");
    cr_assert_str_eq(fusiond_socket(connection), peer.path);
    cr_assert_eq(fusiond_ping(connection, &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_ping(connection, &error), 0, "%s", error.text);
    fusiond_close(connection);
    peer_join(&peer);
}

Test(connection, spinning_gives_the_same_answers)
{
    struct peer peer;
    struct fusiond_error error;
    setenv("FUSIOND_SPIN_US", "200", 1);
    peer_start(&peer, greet_and_ping_twice, NULL);
    struct fusiond_connection *connection = connect_to(&peer);
    cr_assert_eq(fusiond_ping(connection, &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_ping(connection, &error), 0, "%s", error.text);
    fusiond_close(connection);
    peer_join(&peer);
}

Test(connection, the_socket_comes_from_the_environment)
{
    struct peer peer;
    struct fusiond_connection *connection;
    struct fusiond_error error;
    peer_start(&peer, greet_and_ping_twice, NULL);
    setenv("FUSIOND_SOCKET", peer.path, 1);
    cr_assert_eq(fusiond_connect(NULL, NULL, &connection, &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_ping(connection, NULL), 0);
    cr_assert_eq(fusiond_ping(connection, NULL), 0);
    fusiond_close(connection);
    peer_join(&peer);
}

Test(connection, nobody_there)
{
    struct fusiond_connection *connection = NULL;
    struct fusiond_error error;
    cr_assert_eq(fusiond_connect("/nonexistent/sock", NULL, &connection, &error), -1);
    cr_assert_eq(error.code, FUSIOND_UNREACHABLE);
    cr_assert_str_eq(error.name, "UNREACHABLE");
    cr_assert(error.retryable);
    cr_assert(strstr(error.text, "/nonexistent/sock"), "%s", error.text);
    cr_assert_null(connection);
}

Test(connection, a_path_too_long_names_the_limit)
{
    char path[200];
    struct fusiond_connection *connection;
    struct fusiond_error error;
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    cr_assert_eq(fusiond_connect(path, NULL, &connection, &error), -1);
    cr_assert_eq(error.code, FUSIOND_INVALID_FIELD);
    cr_assert(strstr(error.text, "199 bytes; 1 to 107"), "%s", error.text);
}

static void accept_and_say_nothing(struct peer *peer)
{
    peer_accept(peer);
    peer_expect(peer, METHOD_HELLO, NULL);
    peer_expect_end(peer);
}

Test(connection, a_silent_daemon_is_given_up)
{
    struct peer peer;
    struct fusiond_connection *connection;
    struct fusiond_error error;
    struct fusiond_connect_options options = {.timeout_ms = 50};
    peer_start(&peer, accept_and_say_nothing, NULL);
    cr_assert_eq(fusiond_connect(peer.path, &options, &connection, &error), -1);
    cr_assert_eq(error.code, FUSIOND_UNREACHABLE, "%s", error.text);
    cr_assert(strstr(error.text, "in time"), "%s", error.text);
    peer_join(&peer);
}

static void refuse_version(struct peer *peer)
{
    struct failure failure = {.code = STATUS_UNSUPPORTED_VERSION,
                              .has_code = true,
                              .name = TEXT_OF("UNSUPPORTED_VERSION"),
                              .text = TEXT_OF("protocol 2 to 3 only")};
    peer_accept(peer);
    uint32_t id = peer_expect(peer, METHOD_HELLO, NULL);
    peer_fail(peer, id, &failure);
}

Test(connection, no_common_version)
{
    struct peer peer;
    struct fusiond_connection *connection;
    struct fusiond_error error;
    peer_start(&peer, refuse_version, NULL);
    cr_assert_eq(fusiond_connect(peer.path, NULL, &connection, &error), -1);
    cr_assert_str_eq(error.name, "UNSUPPORTED_VERSION");
    cr_assert(strstr(error.text, "protocol 2 to 3 only"), "%s", error.text);
    peer_join(&peer);
}

/* ---- broken connections ---- */

static void restart_between_calls(struct peer *peer)
{
    peer_greet(peer);
    answer_ping(peer);
    peer_greet(peer);
    answer_ping(peer);
    peer_expect_end(peer);
}

Test(connection, F1_a_restarted_daemon_is_found_again)
{
    struct peer peer;
    struct fusiond_error error;
    peer_start(&peer, restart_between_calls, NULL);
    struct fusiond_connection *connection = connect_to(&peer);
    cr_assert_eq(fusiond_ping(connection, &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_ping(connection, &error), 0, "%s", error.text);
    fusiond_close(connection);
    peer_join(&peer);
}

static void die_in_every_call(struct peer *peer)
{
    for (int i = 0; i < 2; i++) {
        peer_greet(peer);
        peer_expect(peer, METHOD_PING, NULL);
    }
    peer_hang_up(peer);
    peer_greet(peer);
    answer_ping(peer);
}

Test(connection, a_request_is_repeated_once_only)
{
    struct peer peer;
    struct fusiond_error error;
    peer_start(&peer, die_in_every_call, NULL);
    struct fusiond_connection *connection = connect_to(&peer);
    cr_assert_eq(fusiond_ping(connection, &error), -1);
    cr_assert_eq(error.code, FUSIOND_DISCONNECTED, "%s", error.text);
    cr_assert_eq(fusiond_ping(connection, &error), 0, "%s", error.text);
    fusiond_close(connection);
    peer_join(&peer);
}

static void answer_with_data(struct peer *peer)
{
    const struct bytes *answer = peer->data;
    peer_greet(peer);
    peer_expect(peer, METHOD_PING, NULL);
    peer_send(peer, answer->at, answer->size, NULL, 0);
    peer_expect_end(peer);
}

static void expect_bad_answer(const char *answer, size_t size, const char *name)
{
    struct peer peer;
    struct fusiond_error error;
    struct bytes bytes = {(const uint8_t *)answer, size};
    peer_start(&peer, answer_with_data, &bytes);
    struct fusiond_connection *connection = connect_to(&peer);
    cr_assert_eq(fusiond_ping(connection, &error), -1);
    cr_assert_str_eq(error.name, name, "%s", error.text);
    peer_join(&peer);
    fusiond_close(connection);
}

Test(connection, F12_a_lying_length_is_refused)
{
    expect_bad_answer("\xff\xff\xff\xff", 4, "FRAME_TOO_LARGE");
}

Test(connection, F11_bytes_that_are_no_message)
{
    expect_bad_answer("\0\0\0\5\xdd\xff\xff\xff\xff", 9, "MALFORMED");
}

Test(connection, an_answer_to_nothing)
{
    expect_bad_answer("\0\0\0\5\x94\x01\x4d\xc0\x80", 9, "MALFORMED");
}

Test(connection, a_request_from_the_daemon)
{
    expect_bad_answer("\0\0\0\x09\x94\x00\x4d\xa4ping\x80", 13, "MALFORMED");
}

static void notify_then_answer(struct peer *peer)
{
    peer_greet(peer);
    uint32_t id = peer_expect(peer, METHOD_PING, NULL);
    peer_send(peer, "\0\0\0\x08\x93\x02\xa4news\x80", 12, NULL, 0);
    peer_reply(peer, id, METHOD_PING, pong, NULL, 0);
    peer_expect_end(peer);
}

Test(connection, notifications_are_passed_over)
{
    struct peer peer;
    struct fusiond_error error;
    peer_start(&peer, notify_then_answer, NULL);
    struct fusiond_connection *connection = connect_to(&peer);
    cr_assert_eq(fusiond_ping(connection, &error), 0, "%s", error.text);
    fusiond_close(connection);
    peer_join(&peer);
}

static void answer_with_fd(struct peer *peer)
{
    int fd = peer_memfd("x", 1, 0);
    peer_greet(peer);
    uint32_t id = peer_expect(peer, METHOD_PING, NULL);
    peer_reply(peer, id, METHOD_PING, pong, &fd, 1);
    close(fd);
    peer_expect_end(peer);
}

Test(connection, F16_descriptors_that_nobody_declared)
{
    struct peer peer;
    struct fusiond_error error;
    peer_start(&peer, answer_with_fd, NULL);
    struct fusiond_connection *connection = connect_to(&peer);
    cr_assert_eq(fusiond_ping(connection, &error), -1);
    cr_assert_str_eq(error.name, "UNEXPECTED_FDS");
    fusiond_close(connection);
    peer_join(&peer);
}

/* ---- forks and threads ---- */

static void serve_parent_and_child(struct peer *peer)
{
    peer_greet(peer);
    answer_ping(peer);
    int parent = peer->fd;
    peer->fd = -1;
    peer_greet(peer); /* the child, on a connection of its own */
    answer_ping(peer);
    peer_expect_end(peer);
    close(peer->fd);
    peer->fd = parent;
    answer_ping(peer);
    peer_expect_end(peer);
}

Test(connection, a_forked_child_has_its_own_connection)
{
    struct peer peer;
    struct fusiond_error error;
    int status;
    peer_start(&peer, serve_parent_and_child, NULL);
    struct fusiond_connection *connection = connect_to(&peer);
    cr_assert_eq(fusiond_ping(connection, &error), 0, "%s", error.text);
    pid_t child = fork();
    if (child == 0)
        _exit(fusiond_ping(connection, NULL) == 0 ? 0 : 1);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    cr_assert_eq(fusiond_ping(connection, &error), 0, "%s", error.text);
    fusiond_close(connection);
    peer_join(&peer);
}

static void answer_after_cancel(struct peer *peer)
{
    struct cancel_request cancel;
    struct cancel_reply cancelled = {.cancelled = true};
    struct failure failure = {.code = STATUS_CANCELLED,
                              .has_code = true,
                              .name = TEXT_OF("CANCELLED"),
                              .text = TEXT_OF("cancelled by its client")};
    peer_greet(peer);
    uint32_t id = peer_expect(peer, METHOD_PING, NULL);
    uint32_t cancel_id = peer_expect(peer, METHOD_CANCEL, &cancel);
    assert(cancel.request == id);
    peer_fail(peer, id, &failure);
    /* Late on purpose: the next call meets it. */
    id = peer_expect(peer, METHOD_PING, NULL);
    peer_reply(peer, cancel_id, METHOD_CANCEL, &cancelled, NULL, 0);
    peer_reply(peer, id, METHOD_PING, pong, NULL, 0);
    peer_expect_end(peer);
}

static void *cancel_when_active(void *argument)
{
    struct fusiond_connection *connection = argument;
    for (;;) {
        pthread_mutex_lock(&connection->lock);
        bool active = connection->active != 0;
        pthread_mutex_unlock(&connection->lock);
        if (active)
            break;
        sched_yield();
    }
    cr_assert_eq(fusiond_cancel(connection, NULL), 0);
    return NULL;
}

Test(connection, another_thread_cancels)
{
    struct peer peer;
    struct fusiond_error error;
    pthread_t thread;
    peer_start(&peer, answer_after_cancel, NULL);
    struct fusiond_connection *connection = connect_to(&peer);
    cr_assert_eq(fusiond_cancel(connection, &error), 0, "nothing to cancel is no error");
    pthread_create(&thread, NULL, cancel_when_active, connection);
    cr_assert_eq(fusiond_ping(connection, &error), -1);
    cr_assert_eq(error.code, FUSIOND_CANCELLED, "%s", error.text);
    pthread_join(thread, NULL);
    cr_assert_eq(fusiond_ping(connection, &error), 0, "%s", error.text);
    fusiond_close(connection);
    peer_join(&peer);
}

/* ---- statistics ---- */

static void answer_stats(struct peer *peer)
{
    struct text degraded[] = {TEXT_OF("the disk is full")};
    struct stats_reply reply = {.compiles_total = 7,
                                .has_compiles_total = true,
                                .hits_memory_total = 1ull << 40,
                                .has_hits_memory_total = true,
                                .degraded = degraded,
                                .n_degraded = 1};
    peer_greet(peer);
    uint32_t id = peer_expect(peer, METHOD_STATS, NULL);
    peer_reply(peer, id, METHOD_STATS, &reply, NULL, 0);
    peer_expect_end(peer);
}

Test(connection, statistics_by_name_and_position)
{
    struct peer peer;
    struct fusiond_stats *stats;
    struct fusiond_error error;
    uint64_t value = 0;
    const char *name;
    size_t n = 0;
    peer_start(&peer, answer_stats, NULL);
    struct fusiond_connection *connection = connect_to(&peer);
    cr_assert_eq(fusiond_stats(connection, &stats, &error), 0, "%s", error.text);
    fusiond_close(connection);
    peer_join(&peer);
    cr_assert(fusiond_stats_get(stats, "compiles_total", &value) && value == 7);
    cr_assert(fusiond_stats_get(stats, "hits_memory_total", &value) && value == 1ull << 40);
    cr_assert(fusiond_stats_get(stats, "misses_total", &value) && value == 0);
    cr_assert_not(fusiond_stats_get(stats, "no_such_number", &value));
    while (fusiond_stats_at(stats, n, &name, &value))
        n++;
    cr_assert_geq(n, 30);
    cr_assert_eq(fusiond_stats_degraded(stats), 1);
    cr_assert_str_eq(fusiond_stats_degraded_at(stats, 0), "the disk is full");
    fusiond_stats_destroy(stats);
}
