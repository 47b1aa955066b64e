/* What a client can ask for, and what it gets: every part of a kernel, and every other method. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels_db/kernel_key.h"
#include "tests/integration/daemon/fixture.h"

static struct daemon_process daemon_;
static struct base_line base;
static struct wire wire;

static void setup(void)
{
    daemon_start_or_skip(&daemon_, &(struct daemon_options){.args = (const char *const[]){"--workers", "2", NULL}});
    base = base_line_take(&daemon_);
    wire_open(&wire, daemon_.socket);
}

static void teardown(void)
{
    daemon_finish(&daemon_);
}

/* At the end of every test: whatever was done to it, the daemon answers others, has leaked nothing, and ends in order.
 */
static void daemon_is_well(void)
{
    wire_close(&wire);
    base_line_check(&base);
    daemon_stop_in_order(&daemon_);
}

TestSuite(kernels, .init = setup, .fini = teardown);

static bool is_cubin(struct bytes image)
{
    return image.size > 64 && memcmp(image.at, "\177ELF\2\1", 6) == 0 && image.at[18] == 190 && image.at[19] == 0;
}

Test(kernels, B_every_part_and_only_what_was_asked)
{
    struct sample sample;
    struct compile_request *request = sample_kernel(&sample, 1);
    struct compile_reply reply = get_kernel(&wire, request);
    cr_assert(reply.outcome == OUTCOME_COMPILED && reply.stored && reply.has_compile_ns && reply.compile_ns > 0);
    cr_assert(!reply.kernel->image.at && !reply.kernel->ptx.at && !reply.kernel->log.at && !reply.kernel->code.at);
    cr_assert(reply.kernel->n_entries == 1 && reply.kernel->n_args == 0 && reply.kernel->n_phases == 0);
    request->with_details = true;
    reply = get_kernel(&wire, request);
    cr_assert(reply.kernel->n_args > 0 && reply.kernel->n_phases > 0);
    request->with_image = request->with_ptx = request->with_log = true;
    reply = get_kernel(&wire, request);
    cr_assert(reply.outcome == OUTCOME_HIT_MEMORY && reply.stored);
    cr_assert(is_cubin(reply.kernel->image) && reply.kernel->image.size == reply.kernel->image_size);
    cr_assert(memmem(reply.kernel->ptx.at, reply.kernel->ptx.size, ".target sm_90a", 14) != NULL);
    cr_assert(strstr(reply.kernel->log.at, "registers"), "%s", reply.kernel->log.at);

    struct kernel_get_request get = {.has_key = true, .with_image = true, .with_code = true};
    struct kernel_get_reply got;
    memcpy(get.key, reply.kernel->key, sizeof get.key);
    cr_assert(wire_call(&wire, METHOD_KERNEL_GET, &get, &got, NULL) == 0);
    cr_assert(is_cubin(got.kernel->image) && strcmp(got.kernel->code.at, sample.code) == 0);
    struct failure failure;
    get.key[5] ^= 1;
    cr_assert(wire_call(&wire, METHOD_KERNEL_GET, &get, NULL, &failure) == STATUS_NOT_FOUND);
    char hex[KEY_HEX];
    key_to_hex(get.key, hex);
    cr_assert(strstr(failure.text.at, hex), "%s", failure.text.at);
    daemon_is_well();
}

Test(kernels, B_several_entries_and_templates)
{
    struct sample sample;
    static const char code[] = "template <typename T, int N> __global__ void fill(T *out) { *out = N; }\n"
                               "extern \"C\" __global__ void plain(double *out, const double *in) {\n"
                               "  __shared__ double tile[64];\n"
                               "  tile[threadIdx.x] = in[threadIdx.x];\n"
                               "  __syncthreads();\n"
                               "  out[threadIdx.x] = tile[63 - threadIdx.x];\n}\n";
    sample_code(&sample, code, "fill<float, 4>");
    sample.entries[1] = TEXT_OF("plain");
    sample.fusion.n_entries = 2;
    struct kernel *kernel = get_kernel(&wire, &sample.request).kernel;
    cr_assert(kernel->n_entries == 2);
    cr_assert_str_eq(kernel->entries[0].name.at, "fill<float, 4>");
    cr_assert(strncmp(kernel->entries[0].lowered.at, "_Z4fill", 7) == 0, "%s", kernel->entries[0].lowered.at);
    cr_assert_str_eq(kernel->entries[1].lowered.at, "plain");
    for (size_t i = 0; i < 2; i++) {
        const struct kernel_entry *entry = &kernel->entries[i];
        cr_assert(entry->has_registers && entry->registers > 0 && entry->has_spill_stores && entry->spill_stores == 0 &&
                  entry->has_spill_loads && entry->has_stack_frame);
    }
    cr_assert(kernel->entries[1].shared_memory == 512, "%llu", (unsigned long long)kernel->entries[1].shared_memory);

    /* Real spills are seen, and told. */
    static const char spilling[] = "extern \"C\" __global__ void k(float *p) {\n  float v[128];\n"
                                   "#pragma unroll\n  for (int i = 0; i < 128; i++) v[i] = p[i * 131];\n"
                                   "  __syncthreads();\n"
                                   "#pragma unroll\n  for (int i = 0; i < 128; i++) p[i * 7] = v[i] * v[127 - i];\n}\n";
    sample_code(&sample, spilling, "k");
    sample.options.max_registers = 32;
    sample.options.has_max_registers = true;
    kernel = get_kernel(&wire, &sample.request).kernel;
    cr_assert(kernel->entries[0].spill_stores > 0 && kernel->entries[0].registers <= 32);
    cr_assert(kernel->n_warnings > 0 && strstr(kernel->warnings[0].at, "spill"), "%s",
              kernel->n_warnings ? kernel->warnings[0].at : "no warning");
    daemon_is_well();
}

Test(kernels, B_ptx_for_a_virtual_target)
{
    struct sample sample;
    sample_kernel(&sample, 3)->with_image = true;
    sample.fusion.target = TEXT_OF("compute_80");
    struct kernel *kernel = get_kernel(&wire, &sample.request).kernel;
    cr_assert(kernel->image_kind == IMAGE_KIND_PTX && !kernel->entries[0].has_registers);
    cr_assert(memmem(kernel->image.at, kernel->image.size, ".target sm_80", 13) != NULL);
    daemon_is_well();
}

Test(kernels, B_headers_inline_and_by_digest)
{
    static const char text[] = "#define VALUE 42\n";
    struct sample sample;
    struct blob_put_request put = {.bytes = {(const uint8_t *)text, sizeof text - 1}};
    struct blob_put_reply blob;
    struct failure failure;
    struct header headers[2] = {{.name = TEXT_OF("value.h"), .bytes = put.bytes},
                                {.name = TEXT_OF("deep/other.h"), .has_digest = true}};
    sample_code(&sample,
                "#include \"value.h\"\n#include <deep/other.h>\n"
                "extern \"C\" __global__ void k(int *p) { *p = VALUE + OTHER; }\n",
                "k");
    sample.fusion.headers = headers;
    sample.fusion.n_headers = 2;
    memset(headers[1].digest, 0xab, DIGEST_SIZE);
    failure = fail_kernel(&wire, &sample.request, STATUS_UNKNOWN_BLOB, "1 of 2");
    cr_assert(failure.retryable && failure.n_missing == 1);
    cr_assert_str_eq(failure.missing[0].name.at, "deep/other.h");
    cr_assert(memcmp(failure.missing[0].digest, headers[1].digest, DIGEST_SIZE) == 0);

    /* As a sealed memfd, with more than may come inline. */
    size_t size = LIMIT_INLINE + 100;
    int fd = memfd_create("header", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    char *large = malloc(size);
    cr_assert(fd >= 0 && large);
    memset(large, ' ', size);
    memcpy(large, "#define OTHER 1\n", 16);
    cr_assert(write(fd, large, size) == (ssize_t)size);
    msgpack_sbuffer out;
    for (int sealed = 0; sealed < 2; sealed++) {
        struct blob_put_request by_fd = {.size = size, .has_size = true, .fds = 1, .has_fds = true};
        msgpack_sbuffer_init(&out);
        wire_write(&out, 77, METHOD_BLOB_PUT, &by_fd);
        cr_assert(!sealed || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) == 0);
        cr_assert(wire_send_with_fds(&wire, out.data, out.size, &fd, 1));
        unsigned code = wire_answer(&wire, 77, METHOD_BLOB_PUT, &blob, &failure);
        cr_assert(code == (sealed ? 0 : STATUS_INVALID_FIELD));
        cr_assert(sealed || strstr(failure.text.at, "sealed"), "%s", failure.text.at);
        msgpack_sbuffer_destroy(&out);
    }
    uint8_t digest[DIGEST_SIZE];
    digest_of(large, size, digest);
    cr_assert(memcmp(digest, blob.digest, DIGEST_SIZE) == 0);
    memcpy(headers[1].digest, digest, DIGEST_SIZE);
    sample.request.with_details = true;
    struct kernel *kernel = get_kernel(&wire, &sample.request).kernel;
    cr_assert(kernel->n_headers == 2);
    close(fd);
    free(large);

    /* Inline or by digest, it is the same kernel. */
    cr_assert(wire_call(&wire, METHOD_BLOB_PUT, &put, &blob, NULL) == 0);
    headers[0] = (struct header){.name = TEXT_OF("value.h"), .has_digest = true};
    memcpy(headers[0].digest, blob.digest, DIGEST_SIZE);
    cr_assert(get_kernel(&wire, &sample.request).outcome == OUTCOME_HIT_MEMORY);
    /* Another text is another kernel. */
    headers[0] = (struct header){.name = TEXT_OF("value.h"), .bytes = {(const uint8_t *)"#define VALUE 43\n", 17}};
    cr_assert(get_kernel(&wire, &sample.request).outcome == OUTCOME_COMPILED);
    daemon_is_well();
}

/* The digest of a blob of spaces, sent as a memfd. */
static void put_spaces(size_t size, uint8_t ret[DIGEST_SIZE])
{
    struct blob_put_request put = {.size = size, .has_size = true, .fds = 1, .has_fds = true};
    struct blob_put_reply blob;
    msgpack_sbuffer out;
    char *text = malloc(size);
    int fd = memfd_create("header", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    cr_assert(text && fd >= 0);
    memset(text, ' ', size);
    cr_assert(write(fd, text, size) == (ssize_t)size);
    cr_assert(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) == 0);
    msgpack_sbuffer_init(&out);
    wire_write(&out, 70, METHOD_BLOB_PUT, &put);
    cr_assert(wire_send_with_fds(&wire, out.data, out.size, &fd, 1));
    cr_assert(wire_answer(&wire, 70, METHOD_BLOB_PUT, &blob, NULL) == 0);
    memcpy(ret, blob.digest, DIGEST_SIZE);
    msgpack_sbuffer_destroy(&out);
    close(fd);
    free(text);
}

Test(kernels, B_headers_larger_than_inline)
{
    struct sample sample;
    struct header header = {.name = TEXT_OF("large.h"), .has_digest = true};
    put_spaces(LIMIT_INLINE + 1, header.digest);
    sample_kernel(&sample, 0);
    sample.fusion.headers = &header;
    sample.fusion.n_headers = 1;
    get_kernel(&wire, &sample.request);
    daemon_is_well();
}

/* One large blob under many names: refused by the sum, and never held in memory as often as it is named. */
Test(kernels, B_headers_that_are_too_large_together)
{
    enum { HEADERS = 4000 };
    static struct header headers[HEADERS];
    static char names[HEADERS][24];
    struct sample sample;
    uint8_t digest[DIGEST_SIZE];
    char sum[32];
    put_spaces(LIMIT_INLINE, digest);
    sample_kernel(&sample, 0);
    sample.fusion.headers = headers;
    sample.fusion.n_headers = HEADERS;
    for (unsigned i = 0; i < HEADERS; i++) {
        snprintf(names[i], sizeof names[i], "h%u.h", i);
        headers[i] = (struct header){.name = text_of(names[i]), .has_digest = true};
        memcpy(headers[i].digest, digest, DIGEST_SIZE);
    }
    uint64_t before = wire_stats(daemon_.socket).resident_bytes;
    fail_kernel(&wire, &sample.request, STATUS_INVALID_FIELD, "headers");
    struct failure failure;
    snprintf(sum, sizeof sum, "%llu", (unsigned long long)HEADERS * LIMIT_INLINE);
    wire_call(&wire, METHOD_COMPILE, &sample.request, NULL, &failure);
    cr_assert(strstr(failure.text.at, sum), "%s", failure.text.at);
    struct stats_reply stats = wire_stats(daemon_.socket);
    cr_assert(stats.worker_crashes_total == 0);
    cr_assert(getenv("ASAN_OPTIONS") || stats.resident_bytes < before + 4ull * LIMIT_HEADER_BYTES, "%llu bytes more",
              (unsigned long long)(stats.resident_bytes - before));
    daemon_is_well();
}

Test(kernels, B_failures_have_the_clients_lines)
{
    struct sample sample;
    static const char code[] = "__device__ int helper(int x)\n"
                               "{\n"
                               "    return x + nothing_of_that_name;\n"
                               "}\n"
                               "__global__ void k(int *p) { *p = helper(1); }\n";
    for (int structured = 0; structured < 2; structured++) {
        sample_code(&sample, code, "k");
        sample.fusion.structured = structured;
        struct failure failure = fail_kernel(&wire, &sample.request, STATUS_COMPILE_FAILED, NULL);
        cr_assert(failure.n_diagnostics > 0 && strstr(failure.log.at, "nothing_of_that_name"), "%s", failure.log.at);
        const struct diagnostic *first = &failure.diagnostics[0];
        cr_assert(first->severity == SEVERITY_ERROR && first->line == 3, "line %llu", (unsigned long long)first->line);
        cr_assert_str_eq(first->file.at, "fusion.cu");
        cr_assert(strstr(first->text.at, "nothing_of_that_name"));
    }
    struct header header = {.name = TEXT_OF("mine.h"), .bytes = {(const uint8_t *)"\n\nint f( { }\n", 13}};
    sample_code(&sample, "#include \"mine.h\"\n__global__ void k() { }\n", "k");
    sample.fusion.headers = &header;
    sample.fusion.n_headers = 1;
    struct failure failure = fail_kernel(&wire, &sample.request, STATUS_COMPILE_FAILED, NULL);
    cr_assert_str_eq(failure.diagnostics[0].file.at, "mine.h");
    cr_assert(failure.diagnostics[0].line == 3);
    cr_assert(wire_stats(daemon_.socket).compiles_failed_total == 3);
    daemon_is_well();
}

/* An instruction of sm_90a alone, for a device that only looks like it. */
Test(kernels, B2_2_code_that_needs_the_suffix_is_an_unsupported_target)
{
    static const char code[] =
        "extern \"C\" __global__ void k(int *p) { asm volatile(\"wgmma.fence.sync.aligned;\"); *p = 1; }\n";
    struct sample sample;
    struct compile_request *request = sample_code(&sample, code, "k");
    get_kernel(&wire, request);
    sample.fusion.target = TEXT_OF("cc_9.0");
    struct compile_reply reply = get_kernel(&wire, request);
    cr_assert(text_is(reply.kernel->target, "sm_90a"));
    sample.fusion.target = TEXT_OF("cc_9.9");
    struct failure failure = fail_kernel(&wire, request, STATUS_UNSUPPORTED_TARGET, "another target than sm_90: ");
    cr_assert(failure.n_diagnostics > 0 && strstr(failure.text.at, "wgmma.fence"), "%s", failure.text.at);
    daemon_is_well();
}

/* The file that a line table names is one that the daemon can be asked for: its name holds the key. */
static void expect_source_of(struct sample *sample, struct bytes image)
{
    static const char beginning[] = "fusiond-";
    const char *at = memmem(image.at, image.size, beginning, sizeof beginning - 1);
    struct kernel_get_request get = {.has_key = true, .with_code = true};
    struct kernel_get_reply got;
    char hex[KEY_HEX];
    cr_assert_not_null(at, "no name in the line table");
    snprintf(hex, sizeof hex, "%.64s", at + sizeof beginning - 1);
    cr_assert(strncmp(at + sizeof beginning - 1 + 64, ".cu", 3) == 0 && key_from_hex(hex, get.key) == 0, "%s", hex);
    cr_assert(wire_call(&wire, METHOD_KERNEL_GET, &get, &got, NULL) == 0);
    cr_assert_str_eq(got.kernel->code.at, sample->fusion.code.at);
}

Test(kernels, B2_5_a_line_table_names_what_the_daemon_can_serve)
{
    struct sample sample;
    struct compile_request *request = sample_kernel(&sample, 25);
    request->with_image = true;
    struct compile_reply reply = get_kernel(&wire, request);
    cr_assert(memmem(reply.kernel->image.at, reply.kernel->image.size, "fusiond-", 8) == NULL);
    sample.options.line_info = true;
    reply = get_kernel(&wire, request);
    expect_source_of(&sample, reply.kernel->image);
    sample.options = (struct compile_options){.debug = true};
    reply = get_kernel(&wire, request);
    expect_source_of(&sample, reply.kernel->image);
    sample.options = (struct compile_options){.line_info = true, .image = IMAGE_KIND_PTX};
    reply = get_kernel(&wire, request);
    expect_source_of(&sample, reply.kernel->image);

    /* What the compiler finds is told of "fusion.cu". */
    sample_code(&sample, "\n\nextern \"C\" __global__ void k() { oops; }\n", "k");
    sample.options.line_info = true;
    struct failure failure = fail_kernel(&wire, &sample.request, STATUS_COMPILE_FAILED, "fusion.cu:3: ");
    cr_assert(text_is(failure.diagnostics[0].file, "fusion.cu") && failure.diagnostics[0].line == 3);
    cr_assert(strstr(failure.log.at, "fusiond-") == NULL && strstr(failure.log.at, "fusion.cu(3)"), "%s",
              failure.log.at);
    daemon_is_well();
}

Test(kernels, B_a_large_image_is_a_sealed_memfd)
{
    struct sample sample;
    struct stat status;
    static const char code[] = "__device__ unsigned table[65536] = {1};\n"
                               "extern \"C\" __global__ void k(unsigned *p) { *p = table[threadIdx.x]; }\n";
    sample_code(&sample, code, "k")->with_image = true;
    for (int round = 0; round < 2; round++) {
        struct compile_reply reply = get_kernel(&wire, &sample.request);
        cr_assert(!reply.kernel->image.at && reply.kernel->has_image_fd && reply.kernel->image_fd == 0);
        cr_assert(reply.fds == 1 && wire.n_fds == 1);
        int fd = wire.fds[0];
        cr_assert(fstat(fd, &status) == 0 && (uint64_t)status.st_size == reply.kernel->image_size);
        cr_assert(status.st_size > (off_t)LIMIT_INLINE_IMAGE);
        int seals = fcntl(fd, F_GET_SEALS);
        cr_assert((seals & (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW)) ==
                  (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW));
        const uint8_t *at = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED, fd, 0);
        cr_assert(at != MAP_FAILED && is_cubin((struct bytes){at, (size_t)status.st_size}));
        munmap((void *)at, (size_t)status.st_size);
        cr_assert(write(fd, "x", 1) < 0 && ftruncate(fd, 0) < 0);
        close(fd);
        wire.n_fds = 0;
    }
    base.descriptors++; /* the daemon keeps the memfd with the kernel */
    daemon_is_well();
}

Test(kernels, B_listing_page_by_page)
{
    enum { KERNELS = 7 };
    struct sample sample;
    uint8_t keys[KERNELS][DIGEST_SIZE], last[DIGEST_SIZE] = {0};
    char label[16];
    for (unsigned i = 0; i < KERNELS; i++) {
        sample_kernel(&sample, i);
        snprintf(label, sizeof label, "label-%u", i % 2);
        sample.fusion.label = text_of(label);
        memcpy(keys[i], get_kernel(&wire, &sample.request).kernel->key, DIGEST_SIZE);
    }
    struct kernel_list_request list = {.limit = 3, .has_limit = true};
    struct kernel_list_reply page;
    size_t seen = 0;
    do {
        cr_assert(wire_call(&wire, METHOD_KERNEL_LIST, &list, &page, NULL) == 0);
        cr_assert(page.n_kernels == (seen < 6 ? 3 : 1) && page.more == (seen < 6));
        for (size_t i = 0; i < page.n_kernels; i++) {
            const struct kernel_summary *one = &page.kernels[i];
            size_t j = 0;
            while (j < KERNELS && memcmp(keys[j], one->key, DIGEST_SIZE) != 0)
                j++;
            cr_assert(j < KERNELS && memcmp(last, one->key, DIGEST_SIZE) < 0);
            snprintf(label, sizeof label, "label-%u", (unsigned)j % 2);
            cr_assert_str_eq(one->label.at, label);
            cr_assert_str_eq(one->entry.at, "k");
            memcpy(last, one->key, DIGEST_SIZE);
            seen++;
        }
        memcpy(list.after, last, DIGEST_SIZE);
        list.has_after = true;
    } while (page.more);
    cr_assert(seen == KERNELS);
    list = (struct kernel_list_request){.label = TEXT_OF("label-1")};
    cr_assert(wire_call(&wire, METHOD_KERNEL_LIST, &list, &page, NULL) == 0 && page.n_kernels == 3 && !page.more);
    char hex[KEY_HEX];
    key_to_hex(keys[2], hex);
    list = (struct kernel_list_request){.prefix = {hex, 16}};
    cr_assert(wire_call(&wire, METHOD_KERNEL_LIST, &list, &page, NULL) == 0 && page.n_kernels == 1);
    list = (struct kernel_list_request){.target = TEXT_OF("sm_80")};
    cr_assert(wire_call(&wire, METHOD_KERNEL_LIST, &list, &page, NULL) == 0 && page.n_kernels == 0);
    list = (struct kernel_list_request){.prefix = TEXT_OF("xyz")};
    struct failure failure;
    cr_assert(wire_call(&wire, METHOD_KERNEL_LIST, &list, NULL, &failure) == STATUS_INVALID_FIELD, "an odd prefix");
    cr_assert(strstr(failure.text.at, "prefix"), "%s", failure.text.at);
    daemon_is_well();
}

/* A kernel that takes a while: a long chain of dependent mathematics, unrolled. */
static struct compile_request *slow_kernel(struct sample *ret)
{
    static const char code[] = "extern \"C\" __global__ void k(double *p) {\n  double v = *p;\n"
                               "#pragma unroll\n  for (int i = 0; i < 10; i++) v = sin(v) + pow(v, cos(v));\n"
                               "  *p = v;\n}\n";
    return sample_code(ret, code, "k");
}

Test(kernels, B_cancel_and_joining)
{
    struct sample slow;
    struct wire other;
    struct cancel_reply cancelled;
    struct failure failure;
    struct envelope envelope;
    wire_open(&other, daemon_.socket);
    uint32_t first = wire_ask(&wire, METHOD_COMPILE, slow_kernel(&slow));
    flights_become(&daemon_, 1);
    uint32_t joined = wire_ask(&other, METHOD_COMPILE, &slow.request);
    struct cancel_request cancel = {.request = first, .has_request = true};
    uint32_t id = wire_ask(&wire, METHOD_CANCEL, &cancel);
    /* The cancelled request is answered, then the cancellation. */
    cr_assert(wire_answer(&wire, first, METHOD_COMPILE, NULL, &failure) == STATUS_CANCELLED);
    cr_assert(wire_answer(&wire, id, METHOD_CANCEL, &cancelled, NULL) == 0 && cancelled.cancelled);
    cr_assert(wire_call(&wire, METHOD_CANCEL, &cancel, &cancelled, NULL) == 0 && !cancelled.cancelled);
    /* Who joined gets it all the same. */
    struct compile_reply reply;
    cr_assert(wire_answer(&other, joined, METHOD_COMPILE, &reply, NULL) == 0);
    cr_assert(reply.outcome == OUTCOME_JOINED && reply.stored);
    cr_assert(wire_stats(daemon_.socket).compiles_total == 1);
    cr_assert(get_kernel(&wire, &slow.request).outcome == OUTCOME_HIT_MEMORY);
    cr_assert(wire_read(&wire, 0, &envelope) == WIRE_SILENCE);
    wire_close(&other);
    daemon_is_well();
}

static bool is_stored(void *context)
{
    (void)context;
    return wire_stats(daemon_.socket).database_kernels == 1;
}

static bool is_compiling(void *context)
{
    (void)context;
    return wire_stats(daemon_.socket).workers_busy == 1;
}

/* One that has begun; what nobody waits for any more is not begun. */
Test(kernels, F17_who_leaves_does_not_stop_a_compile)
{
    struct sample slow;
    struct wire leaving;
    wire_open(&leaving, daemon_.socket);
    wire_ask(&leaving, METHOD_COMPILE, slow_kernel(&slow));
    cr_assert(becomes_true(is_compiling, NULL, DAEMON_PATIENCE_MS));
    wire_close(&leaving);
    cr_assert(becomes_true(is_stored, NULL, DAEMON_PATIENCE_MS));
    cr_assert(get_kernel(&wire, &slow.request).outcome == OUTCOME_HIT_MEMORY);
    daemon_is_well();
}
