/* Compiling, fetching, listing: what is asked, what is made of the answers. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/connection.h"
#include "kernels_db/kernel_key.h"
#include "tests/unit/client/peer.h"

static struct fusiond_fusion *some_fusion(void)
{
    struct fusiond_fusion *fusion = fusiond_fusion_create();
    static const char code[] = "__global__ void f(Tensor<float, 1, 1> T0) {}";
    cr_assert_eq(fusiond_fusion_set_code(fusion, code, sizeof code - 1, false, NULL), 0);
    cr_assert_eq(fusiond_fusion_add_entry(fusion, "f", NULL), 0);
    cr_assert_eq(fusiond_fusion_set_target(fusion, "sm_90a", NULL), 0);
    return fusion;
}

static struct kernel some_kernel(void)
{
    static struct kernel_entry entry = {.name = {"f", 1},
                                        .lowered = {"_Z1f", 4},
                                        .registers = 32,
                                        .has_registers = true,
                                        .spill_stores = 0,
                                        .has_spill_stores = true};
    static struct text warning = {"spills", 6};
    struct kernel kernel = {.has_key = true,
                            .target = TEXT_OF("sm_90a"),
                            .image_kind = IMAGE_KIND_CUBIN,
                            .index_type = INDEX_TYPE_INT32,
                            .entries = &entry,
                            .n_entries = 1,
                            .warnings = &warning,
                            .n_warnings = 1,
                            .compiler = TEXT_OF("NVRTC 13.0"),
                            .has_build = true,
                            .has_created_unix_s = true,
                            .has_image_size = true};
    memset(kernel.key, 0xab, sizeof kernel.key);
    return kernel;
}

static void reply_kernel(struct peer *peer, uint32_t id, struct kernel *kernel, const int *fds, size_t n_fds)
{
    struct compile_reply reply = {.kernel = kernel,
                                  .outcome = OUTCOME_COMPILED,
                                  .stored = true,
                                  .compile_ns = 1234,
                                  .has_compile_ns = true,
                                  .fds = n_fds,
                                  .has_fds = n_fds > 0};
    peer_reply(peer, id, METHOD_COMPILE, &reply, fds, n_fds);
}

static struct fusiond_connection *connect_to(const struct peer *peer)
{
    struct fusiond_connection *connection;
    struct fusiond_error error;
    cr_assert_eq(fusiond_connect(peer->path, NULL, &connection, &error), 0, "%s", error.text);
    return connection;
}

/* ---- a plain compile ---- */

static void answer_inline(struct peer *peer)
{
    struct compile_request request;
    peer_greet(peer);
    uint32_t id = peer_expect(peer, METHOD_COMPILE, &request);
    assert(text_is(request.fusion->code, "__global__ void f(Tensor<float, 1, 1> T0) {}"));
    assert(text_is(request.fusion->target, "sm_90a"));
    assert(request.fusion->n_entries == 1 && text_is(request.fusion->entries[0], "f"));
    assert(request.fusion->compile->block_size == 128);
    assert(request.fusion->compile->n_defines == 2 && !request.fusion->compile->defines[1].value.at);
    assert(request.fusion->index_type == INDEX_TYPE_INT32);
    assert(request.with_image && request.with_log && !request.with_ptx);
    assert(request.has_deadline_ms && request.deadline_ms == 5000);
    assert(request.n_sample == 1 && request.sample[0].n_sizes == 2 && request.sample[0].sizes[1] == 3);
    assert(request.sample[0].n_strides == 0);
    struct kernel kernel = some_kernel();
    kernel.image = (struct bytes){(const uint8_t *)"CUBIN", 5};
    kernel.image_size = 5;
    kernel.log = TEXT_OF("ptxas says");
    reply_kernel(peer, id, &kernel, NULL, 0);
    peer_expect_end(peer);
}

/* ---- progress ---- */

static void send_progress(struct peer *peer, const char *name, uint32_t id, enum compile_state state, uint64_t ahead)
{
    struct compile_progress progress = {
        .request = id, .has_request = true, .state = state, .ahead = ahead, .has_ahead = state == COMPILE_STATE_QUEUED};
    msgpack_sbuffer out;
    msgpack_sbuffer_init(&out);
    assert(envelope_write_notification(&out, name, &compile_progress_type, &progress) == 0);
    peer_send(peer, out.data, out.size, NULL, 0);
    msgpack_sbuffer_destroy(&out);
}

static void answer_slowly(struct peer *peer)
{
    struct compile_request request;
    struct kernel kernel = some_kernel();
    peer_greet(peer);
    for (int i = 0; i < 2; i++) {
        uint32_t id = peer_expect(peer, METHOD_COMPILE, &request);
        assert(request.progress == (i == 0));
        send_progress(peer, "compile.progress", id, COMPILE_STATE_QUEUED, 7);
        send_progress(peer, "compile.progress", id + 1, COMPILE_STATE_QUEUED, 6); /* of no request of ours */
        send_progress(peer, "something.newer", id, COMPILE_STATE_QUEUED, 5);
        send_progress(peer, "compile.progress", id, COMPILE_STATE_STARTED, 0);
        send_progress(peer, "compile.progress", id, COMPILE_STATE_DONE, 0);
        reply_kernel(peer, id, &kernel, NULL, 0);
    }
    peer_expect_end(peer);
}

static void on_progress(void *context, const struct fusiond_progress *progress)
{
    char *news = context;
    size_t used = strlen(news);
    snprintf(news + used, 64 - used, "%d:%u ", (int)progress->state, progress->ahead);
}

Test(compile, progress_comes_by_a_callback_to_who_asks_for_it)
{
    struct peer peer;
    struct fusiond_kernel *kernel;
    struct fusiond_error error;
    char news[64] = "";
    struct fusiond_compile_options options = {.on_progress = on_progress, .context = news};
    struct fusiond_fusion *fusion = some_fusion();
    peer_start(&peer, answer_slowly, NULL);
    struct fusiond_connection *connection = connect_to(&peer);
    cr_assert_eq(fusiond_compile(connection, fusion, &options, &kernel, &error), 0, "%s", error.text);
    cr_assert_str_eq(news, "1:7 2:0 3:0 ");
    fusiond_kernel_destroy(kernel);
    options.on_progress = NULL;
    cr_assert_eq(fusiond_compile(connection, fusion, &options, &kernel, &error), 0, "%s", error.text);
    cr_assert_str_eq(news, "1:7 2:0 3:0 ");
    fusiond_kernel_destroy(kernel);
    fusiond_close(connection);
    peer_join(&peer);
    fusiond_fusion_destroy(fusion);
}

Test(compile, a_fusion_goes_in_and_a_kernel_comes_out)
{
    struct peer peer;
    struct fusiond_kernel *kernel;
    struct fusiond_error error;
    size_t size;
    int64_t sizes[] = {2, 3};
    struct fusiond_sample sample = {.rank = 2, .sizes = sizes};
    struct fusiond_compile_options options = {
        .parts = FUSIOND_IMAGE | FUSIOND_LOG, .deadline_ms = 5000, .samples = &sample, .n_samples = 1};
    struct fusiond_fusion *fusion = some_fusion();
    cr_assert_eq(fusiond_fusion_set_option(fusion, "compile.block_size", "128", &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_fusion_set_option(fusion, "index_type", "int32", &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_fusion_add_define(fusion, "A", "3", &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_fusion_add_define(fusion, "B", NULL, &error), 0, "%s", error.text);
    peer_start(&peer, answer_inline, NULL);
    struct fusiond_connection *connection = connect_to(&peer);
    cr_assert_eq(fusiond_compile(connection, fusion, &options, &kernel, &error), 0, "%s", error.text);
    fusiond_close(connection);
    peer_join(&peer);
    fusiond_fusion_destroy(fusion);

    /* The kernel outlives fusion and connection. */
    cr_assert_eq(strspn(fusiond_kernel_key(kernel), "ab"), 64);
    cr_assert_str_eq(fusiond_kernel_target(kernel), "sm_90a");
    cr_assert_str_eq(fusiond_kernel_label(kernel), "");
    cr_assert_str_eq(fusiond_kernel_compiler(kernel), "NVRTC 13.0");
    cr_assert_str_eq(fusiond_kernel_image_kind(kernel), "cubin");
    cr_assert_str_eq(fusiond_kernel_index_type(kernel), "int32");
    cr_assert_str_eq(fusiond_kernel_outcome(kernel), "compiled");
    cr_assert(fusiond_kernel_stored(kernel));
    cr_assert_eq(fusiond_kernel_compile_ns(kernel), 1234);
    cr_assert_eq(memcmp(fusiond_kernel_image(kernel, &size), "CUBIN", 5), 0);
    cr_assert_eq(size, 5);
    cr_assert_null(fusiond_kernel_ptx(kernel, &size));
    cr_assert_eq(size, 0);
    cr_assert_str_eq(fusiond_kernel_log(kernel), "ptxas says");
    cr_assert_eq(fusiond_kernel_entries(kernel), 1);
    struct fusiond_entry entry = fusiond_kernel_entry(kernel, 0);
    cr_assert_str_eq(entry.name, "f");
    cr_assert_str_eq(entry.lowered, "_Z1f");
    cr_assert_eq(entry.registers, 32);
    cr_assert_eq(entry.spill_stores, 0);
    cr_assert_eq(entry.spill_loads, -1, "unknown");
    cr_assert_eq(fusiond_kernel_warnings(kernel), 1);
    cr_assert_str_eq(fusiond_kernel_warning(kernel, 0), "spills");
    fusiond_kernel_destroy(kernel);
}

/* ---- the compiler's errors ---- */

static void reject(struct peer *peer)
{
    struct diagnostic diagnostics[] = {
        {.severity = SEVERITY_ERROR,
         .file = TEXT_OF("fusion.cu"),
         .line = 3,
         .has_line = true,
         .text = TEXT_OF("identifier \"x\" is undefined")},
        {.severity = SEVERITY_NOTE, .text = TEXT_OF("1 error")},
    };
    struct failure failure = {.code = STATUS_COMPILE_FAILED,
                              .has_code = true,
                              .name = TEXT_OF("COMPILE_FAILED"),
                              .text = TEXT_OF("NVRTC_ERROR_COMPILATION: 1 error"),
                              .log = TEXT_OF("fusion.cu(3): error"),
                              .diagnostics = diagnostics,
                              .n_diagnostics = 2};
    peer_greet(peer);
    uint32_t id = peer_expect(peer, METHOD_COMPILE, NULL);
    peer_fail(peer, id, &failure);
    id = peer_expect(peer, METHOD_PING, NULL);
    peer_reply(peer, id, METHOD_PING, NULL, NULL, 0);
    peer_expect_end(peer);
}

Test(compile, B3_2_a_failure_carries_log_and_diagnostics)
{
    struct peer peer;
    struct fusiond_kernel *kernel = NULL;
    struct fusiond_error error;
    struct fusiond_fusion *fusion = some_fusion();
    peer_start(&peer, reject, NULL);
    struct fusiond_connection *connection = connect_to(&peer);
    cr_assert_eq(fusiond_compile(connection, fusion, NULL, &kernel, &error), -1);
    cr_assert_null(kernel);
    cr_assert_eq(error.code, FUSIOND_COMPILE_FAILED);
    cr_assert_str_eq(error.text, "NVRTC_ERROR_COMPILATION: 1 error");
    cr_assert_str_eq(fusiond_failure_log(connection), "fusion.cu(3): error");
    cr_assert_eq(fusiond_failure_diagnostics(connection), 2);
    struct fusiond_diagnostic first = fusiond_failure_diagnostic(connection, 0);
    cr_assert_str_eq(first.severity, "error");
    cr_assert_str_eq(first.file, "fusion.cu");
    cr_assert_eq(first.line, 3);
    cr_assert_eq(first.column, 0);
    cr_assert_str_eq(first.text, "identifier \"x\" is undefined");
    cr_assert_null(fusiond_failure_diagnostic(connection, 1).file);
    cr_assert_eq(fusiond_ping(connection, NULL), 0);
    cr_assert_eq(fusiond_failure_diagnostics(connection), 0, "forgotten by the next call");
    cr_assert_str_eq(fusiond_failure_log(connection), "");
    fusiond_close(connection);
    peer_join(&peer);
    fusiond_fusion_destroy(fusion);
}

/* ---- images in memfds ---- */

struct memfd_case {
    int seals;
    uint64_t claimed; /* image_size */
    uint64_t index;   /* image_fd */
    size_t n_fds;     /* declared and sent */
};

#define IMAGE_SIZE 300000u

static void answer_memfd(struct peer *peer)
{
    const struct memfd_case *test = peer->data;
    uint8_t *image = malloc(IMAGE_SIZE);
    for (size_t i = 0; i < IMAGE_SIZE; i++)
        image[i] = (uint8_t)(i * 7);
    int fd = peer_memfd(image, IMAGE_SIZE, test->seals);
    free(image);
    int fds[] = {fd, fd};
    peer_greet(peer);
    uint32_t id = peer_expect(peer, METHOD_COMPILE, NULL);
    struct kernel kernel = some_kernel();
    kernel.image_size = test->claimed;
    kernel.image_fd = test->index;
    kernel.has_image_fd = true;
    reply_kernel(peer, id, &kernel, fds, test->n_fds);
    close(fd);
    peer_expect_end(peer);
}

static int count_fds(void)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* The kernel, or NULL with the error's name in `name`. */
static struct fusiond_kernel *compile_memfd(struct memfd_case test, const char **ret_name)
{
    struct peer peer;
    struct fusiond_kernel *kernel = NULL;
    struct fusiond_error error = {0};
    struct fusiond_fusion *fusion = some_fusion();
    int before = count_fds();
    peer_start(&peer, answer_memfd, &test);
    struct fusiond_connection *connection = connect_to(&peer);
    fusiond_compile(connection, fusion, NULL, &kernel, &error);
    fusiond_close(connection);
    peer_join(&peer);
    fusiond_fusion_destroy(fusion);
    cr_assert_eq(count_fds(), before, "descriptors leak");
    *ret_name = error.name;
    return kernel;
}

#define SEALED (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW)

Test(compile, a_large_image_is_mapped)
{
    const char *name;
    size_t size;
    struct fusiond_kernel *kernel = compile_memfd((struct memfd_case){SEALED, IMAGE_SIZE, 0, 1}, &name);
    cr_assert_not_null(kernel, "%s", name);
    const uint8_t *image = fusiond_kernel_image(kernel, &size);
    cr_assert_eq(size, IMAGE_SIZE);
    for (size_t i = 0; i < size; i++)
        cr_assert_eq(image[i], (uint8_t)(i * 7));
    fusiond_kernel_destroy(kernel);
}

static void expect_refused(struct memfd_case test, const char *expected)
{
    const char *name;
    cr_assert_null(compile_memfd(test, &name));
    cr_assert_str_eq(name, expected);
}

Test(compile, an_image_that_could_change_is_refused)
{
    expect_refused((struct memfd_case){0, IMAGE_SIZE, 0, 1}, "MALFORMED");
    expect_refused((struct memfd_case){SEALED & ~F_SEAL_WRITE, IMAGE_SIZE, 0, 1}, "MALFORMED");
    expect_refused((struct memfd_case){SEALED & ~F_SEAL_SHRINK, IMAGE_SIZE, 0, 1}, "MALFORMED");
    expect_refused((struct memfd_case){SEALED & ~F_SEAL_GROW, IMAGE_SIZE, 0, 1}, "MALFORMED");
}

Test(compile, an_image_of_another_size_is_refused)
{
    expect_refused((struct memfd_case){SEALED, IMAGE_SIZE + 1, 0, 1}, "MALFORMED");
    expect_refused((struct memfd_case){SEALED, 0, 0, 1}, "MALFORMED");
}

Test(compile, a_descriptor_that_is_not_there)
{
    expect_refused((struct memfd_case){SEALED, IMAGE_SIZE, 1, 1}, "MALFORMED");
    expect_refused((struct memfd_case){SEALED, IMAGE_SIZE, 0, 0}, "MALFORMED");
}

/* ---- headers ---- */

static void expect_inline_headers(struct peer *peer)
{
    struct compile_request request;
    peer_greet(peer);
    uint32_t id = peer_expect(peer, METHOD_COMPILE, &request);
    assert(request.fusion->n_headers == 2);
    assert(text_is(request.fusion->headers[1].name, "b.h") && request.fusion->headers[1].bytes.size == 5);
    struct kernel kernel = some_kernel();
    reply_kernel(peer, id, &kernel, NULL, 0);
    peer_expect_end(peer);
}

Test(compile, small_headers_go_with_the_request)
{
    struct peer peer;
    struct fusiond_kernel *kernel;
    struct fusiond_error error;
    struct fusiond_fusion *fusion = some_fusion();
    fusiond_fusion_add_header(fusion, "a.h", "int a;", 6, NULL);
    fusiond_fusion_add_header(fusion, "b.h", "int b", 5, NULL);
    peer_start(&peer, expect_inline_headers, NULL);
    struct fusiond_connection *connection = connect_to(&peer);
    cr_assert_eq(fusiond_compile(connection, fusion, NULL, &kernel, &error), 0, "%s", error.text);
    fusiond_kernel_destroy(kernel);
    fusiond_close(connection);
    peer_join(&peer);
    fusiond_fusion_destroy(fusion);
}

#define BIG (3u << 20)

/* Lacks the second of two headers, which is too large to be sent inline. */
static void lack_one_header(struct peer *peer)
{
    struct compile_request request;
    struct blob_put_request put;
    struct blob_put_reply put_reply = {.has_digest = true};
    peer_greet(peer);
    uint32_t id = peer_expect(peer, METHOD_COMPILE, &request);
    assert(request.fusion->n_headers == 2);
    assert(request.fusion->headers[0].has_digest && !request.fusion->headers[0].bytes.at);
    struct header_digest missing = {.name = TEXT_OF("big.h"), .has_digest = true};
    memcpy(missing.digest, request.fusion->headers[1].digest, DIGEST_SIZE);
    struct failure failure = {.code = STATUS_UNKNOWN_BLOB,
                              .has_code = true,
                              .name = TEXT_OF("UNKNOWN_BLOB"),
                              .text = TEXT_OF("1 header is missing"),
                              .missing = &missing,
                              .n_missing = 1};
    peer_fail(peer, id, &failure);

    id = peer_expect(peer, METHOD_BLOB_PUT, &put);
    assert(put.has_size && put.size == BIG && put.fds == 1 && peer->n_fds == 1);
    int needed = SEALED;
    assert((fcntl(peer->fds[0], F_GET_SEALS) & needed) == needed);
    uint8_t *bytes = mmap(NULL, BIG, PROT_READ, MAP_PRIVATE, peer->fds[0], 0);
    assert(bytes != MAP_FAILED);
    digest_of(bytes, BIG, put_reply.digest);
    munmap(bytes, BIG);
    assert(memcmp(put_reply.digest, missing.digest, DIGEST_SIZE) == 0);
    peer_reply(peer, id, METHOD_BLOB_PUT, &put_reply, NULL, 0);

    id = peer_expect(peer, METHOD_COMPILE, &request);
    struct kernel kernel = some_kernel();
    reply_kernel(peer, id, &kernel, NULL, 0);
    peer_expect_end(peer);
}

static struct fusiond_fusion *fusion_with_big_header(void)
{
    struct fusiond_fusion *fusion = some_fusion();
    char *big = malloc(BIG);
    memset(big, 'x', BIG);
    cr_assert_eq(fusiond_fusion_add_header(fusion, "small.h", "int a;", 6, NULL), 0);
    cr_assert_eq(fusiond_fusion_add_header(fusion, "big.h", big, BIG, NULL), 0);
    free(big);
    return fusion;
}

Test(compile, large_headers_are_sent_once_and_named_by_digest)
{
    struct peer peer;
    struct fusiond_kernel *kernel;
    struct fusiond_error error;
    struct fusiond_fusion *fusion = fusion_with_big_header();
    peer_start(&peer, lack_one_header, NULL);
    struct fusiond_connection *connection = connect_to(&peer);
    cr_assert_eq(fusiond_compile(connection, fusion, NULL, &kernel, &error), 0, "%s", error.text);
    fusiond_kernel_destroy(kernel);
    fusiond_close(connection);
    peer_join(&peer);
    fusiond_fusion_destroy(fusion);
}

static void lack_everything_for_ever(struct peer *peer)
{
    struct failure failure = {.code = STATUS_UNKNOWN_BLOB,
                              .has_code = true,
                              .name = TEXT_OF("UNKNOWN_BLOB"),
                              .text = TEXT_OF("a blob is missing")};
    peer_greet(peer);
    for (int round = 0; round < 2; round++) {
        peer_fail(peer, peer_expect(peer, METHOD_COMPILE, NULL), &failure);
        for (int i = 0; round == 0 && i < 2; i++) {
            struct blob_put_request put;
            struct blob_put_reply reply = {.has_digest = true};
            uint32_t id = peer_expect(peer, METHOD_BLOB_PUT, &put);
            if (put.bytes.at)
                digest_of(put.bytes.at, put.bytes.size, reply.digest);
            else {
                uint8_t *bytes = mmap(NULL, put.size, PROT_READ, MAP_PRIVATE, peer->fds[0], 0);
                digest_of(bytes, put.size, reply.digest);
                munmap(bytes, put.size);
            }
            peer_reply(peer, id, METHOD_BLOB_PUT, &reply, NULL, 0);
        }
    }
    peer_expect_end(peer);
}

Test(compile, blobs_are_put_once_only)
{
    struct peer peer;
    struct fusiond_kernel *kernel;
    struct fusiond_error error;
    struct fusiond_fusion *fusion = fusion_with_big_header();
    peer_start(&peer, lack_everything_for_ever, NULL);
    struct fusiond_connection *connection = connect_to(&peer);
    cr_assert_eq(fusiond_compile(connection, fusion, NULL, &kernel, &error), -1);
    cr_assert_str_eq(error.name, "UNKNOWN_BLOB");
    fusiond_close(connection);
    peer_join(&peer);
    fusiond_fusion_destroy(fusion);
}

/* ---- fetching and listing ---- */

static void answer_get(struct peer *peer)
{
    struct kernel_get_request request;
    peer_greet(peer);
    uint32_t id = peer_expect(peer, METHOD_KERNEL_GET, &request);
    assert(request.key[0] == 0xab && request.with_ptx && request.with_code && !request.with_image);
    struct kernel kernel = some_kernel();
    kernel.ptx = (struct bytes){(const uint8_t *)".version", 8};
    kernel.code = TEXT_OF("__global__ …");
    struct kernel_get_reply reply = {.kernel = &kernel, .outcome = OUTCOME_HIT_DATABASE};
    peer_reply(peer, id, METHOD_KERNEL_GET, &reply, NULL, 0);
    peer_expect_end(peer);
}

Test(compile, a_kernel_is_fetched_by_key)
{
    struct peer peer;
    struct fusiond_kernel *kernel;
    struct fusiond_error error;
    size_t size;
    const char *key = "abababababababababababababababababababababababababababababababab";
    peer_start(&peer, answer_get, NULL);
    struct fusiond_connection *connection = connect_to(&peer);
    cr_assert_eq(fusiond_kernel_get(connection, "ab", 0, &kernel, &error), -1, "a prefix is no key");
    cr_assert_eq(error.code, FUSIOND_INVALID_FIELD);
    cr_assert_eq(fusiond_kernel_get(connection, key, FUSIOND_PTX | FUSIOND_CODE, &kernel, &error), 0, "%s", error.text);
    cr_assert_str_eq(fusiond_kernel_key(kernel), key);
    cr_assert_str_eq(fusiond_kernel_outcome(kernel), "hit_database");
    cr_assert_eq(memcmp(fusiond_kernel_ptx(kernel, &size), ".version", 8), 0);
    cr_assert_str_eq(fusiond_kernel_code(kernel), "__global__ …");
    fusiond_kernel_destroy(kernel);
    fusiond_close(connection);
    peer_join(&peer);
}

static void answer_two_pages(struct peer *peer)
{
    struct kernel_list_request request;
    struct kernel_summary rows[2] = {
        {.has_key = true, .target = TEXT_OF("sm_90a"), .has_image_size = true, .has_created_unix_s = true},
        {.has_key = true, .target = TEXT_OF("sm_80"), .has_image_size = true, .has_created_unix_s = true},
    };
    memset(rows[0].key, 1, DIGEST_SIZE);
    memset(rows[1].key, 2, DIGEST_SIZE);
    struct kernel_list_reply page = {.kernels = rows, .n_kernels = 2, .more = true};
    peer_greet(peer);
    uint32_t id = peer_expect(peer, METHOD_KERNEL_LIST, &request);
    assert(!request.has_after && text_is(request.label, "softmax"));
    peer_reply(peer, id, METHOD_KERNEL_LIST, &page, NULL, 0);
    id = peer_expect(peer, METHOD_KERNEL_LIST, &request);
    assert(request.has_after && request.after[0] == 2);
    memset(rows[0].key, 3, DIGEST_SIZE);
    page = (struct kernel_list_reply){.kernels = rows, .n_kernels = 1};
    peer_reply(peer, id, METHOD_KERNEL_LIST, &page, NULL, 0);
    peer_expect_end(peer);
}

Test(compile, a_list_is_fetched_page_by_page)
{
    struct peer peer;
    struct fusiond_kernel_list *list;
    struct fusiond_error error;
    struct fusiond_list_filter filter = {.label = "softmax"};
    peer_start(&peer, answer_two_pages, NULL);
    struct fusiond_connection *connection = connect_to(&peer);
    cr_assert_eq(fusiond_kernel_list(connection, &filter, &list, &error), 0, "%s", error.text);
    fusiond_close(connection);
    peer_join(&peer);
    cr_assert_eq(fusiond_kernel_list_count(list), 3);
    cr_assert_eq(strncmp(fusiond_kernel_list_at(list, 2).key, "0303", 4), 0);
    cr_assert_str_eq(fusiond_kernel_list_at(list, 1).target, "sm_80");
    cr_assert_str_eq(fusiond_kernel_list_at(list, 1).label, "");
    fusiond_kernel_list_destroy(list);
}

Test(compile, no_target_and_no_device)
{
    struct peer peer;
    struct fusiond_kernel *kernel;
    struct fusiond_error error;
    struct fusiond_fusion *fusion = fusiond_fusion_create();
    if (access("/dev/nvidiactl", F_OK) == 0)
        cr_skip_test("this machine has a CUDA device, so there is a target");
    fusiond_fusion_set_code(fusion, "x", 1, false, NULL);
    peer_start(&peer, peer_greet, NULL);
    struct fusiond_connection *connection = connect_to(&peer);
    cr_assert_eq(fusiond_compile(connection, fusion, NULL, &kernel, &error), -1);
    cr_assert_eq(error.code, FUSIOND_NO_DRIVER);
    cr_assert(strstr(error.text, "give one, as sm_90a"), "%s", error.text);
    fusiond_close(connection);
    peer_join(&peer);
    fusiond_fusion_destroy(fusion);
}
