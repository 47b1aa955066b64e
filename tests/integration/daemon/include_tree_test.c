/* An include tree through the daemon and the real compiler: it is sent once, by digest, and any header is in the key.
 */
#include <criterion/criterion.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/fusiond.h"
#include "tests/integration/daemon/fixture.h"

/* More than go inline. */
#define HEADERS 40

static struct daemon_process daemon_;
static char root[] = "/tmp/fusiond-tree-XXXXXX";

static void put(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root, name);
    FILE *out = fopen(path, "w");
    cr_assert(out && fputs(text, out) >= 0 && fclose(out) == 0);
}

/* inc/part/h0.h … each includes the next one as its neighbour, every third one by a way around; inc/all.h the first. */
static void make_tree(void)
{
    char path[256], name[64], text[256];
    const char *const folders[] = {"inc", "inc/part"};
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", root, folders[i]);
        cr_assert_eq(mkdir(path, 0700), 0);
    }
    for (int i = 0; i < HEADERS - 1; i++) {
        snprintf(name, sizeof name, "inc/part/h%d.h", i);
        int n = snprintf(text, sizeof text, "#ifndef H%d\n#define H%d\n__device__ inline int f%d() { return %d; }\n", i,
                         i, i, i);
        if (i < HEADERS - 2)
            snprintf(text + n, sizeof text - (size_t)n, "#include \"%sh%d.h\"\n#endif\n", i % 3 ? "" : "../part/",
                     i + 1);
        else
            snprintf(text + n, sizeof text - (size_t)n, "#endif\n");
        put(name, text);
    }
    put("inc/all.h", "#pragma once\n#include <part/h0.h>\n#if __has_include(<no/such/thing.h>)\n#error\n#endif\n");
}

static void setup(void)
{
    cr_assert_not_null(mkdtemp(root));
    make_tree();
    daemon_start_or_skip(&daemon_, &(struct daemon_options){0});
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
    (void)status, (void)type, (void)ftw;
    return remove(path);
}

static void teardown(void)
{
    daemon_finish(&daemon_);
    nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

TestSuite(include_tree, .init = setup, .fini = teardown);

/* What a client of its own caused. */
struct seen {
    char key[65], outcome[16];
    uint64_t requests, blobs, blob_bytes;
};

static struct seen compile_number(const char *target, int number)
{
    char code[256], folder[128];
    struct fusiond_error error;
    struct fusiond_connection *connection;
    struct fusiond_kernel *kernel;
    struct seen seen;
    const char *const folders[] = {folder};
    struct stats_reply before = wire_stats(daemon_.socket);
    struct fusiond_fusion *fusion = fusiond_fusion_create();
    snprintf(folder, sizeof folder, "%s/inc", root);
    snprintf(code, sizeof code,
             "#include <all.h>\n#include \"part/h7.h\"\n"
             "extern \"C\" __global__ void k(int *p) { *p = f0() + f%d() + %d; }\n",
             HEADERS - 2, number);
    cr_assert_eq(fusiond_fusion_set_code(fusion, code, strlen(code), true, NULL), 0);
    cr_assert_eq(fusiond_fusion_add_entry(fusion, "k", NULL), 0);
    cr_assert_eq(fusiond_fusion_set_target(fusion, target, NULL), 0);
    cr_assert_eq(fusiond_fusion_set_option(fusion, "side_effects_only", "true", NULL), 0);
    cr_assert_eq(fusiond_fusion_add_include_tree(fusion, NULL, folders, 1, &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_connect(daemon_.socket, NULL, &connection, &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_compile(connection, fusion, NULL, &kernel, &error), 0, "%s\n%s", error.text,
                 fusiond_failure_log(connection));
    snprintf(seen.key, sizeof seen.key, "%s", fusiond_kernel_key(kernel));
    snprintf(seen.outcome, sizeof seen.outcome, "%s", fusiond_kernel_outcome(kernel));
    fusiond_kernel_destroy(kernel);
    fusiond_close(connection);
    fusiond_fusion_destroy(fusion);
    struct stats_reply after = wire_stats(daemon_.socket);
    seen.requests = after.requests_total - before.requests_total - 3; /* stats itself, and two greetings */
    seen.blobs = after.blobs - before.blobs;
    seen.blob_bytes = after.blob_bytes - before.blob_bytes;
    return seen;
}

static void sent_once_and_in_the_key(const char *target)
{
    static const char changed[] = "__device__ inline int f38() { return 1038; }\n";
    struct seen first = compile_number(target, 1);
    cr_assert_str_eq(first.outcome, "compiled");
    cr_assert_eq(first.blobs, HEADERS);
    cr_assert_eq(first.requests, 1 + HEADERS + 1, "asked, sent each once, asked again");

    struct seen again = compile_number(target, 1);
    cr_assert_str_eq(again.outcome, "hit_memory");
    cr_assert_str_eq(again.key, first.key);
    cr_assert_eq(again.requests, 1);

    struct seen other = compile_number(target, 2);
    cr_assert_str_eq(other.outcome, "compiled");
    cr_assert_str_neq(other.key, first.key);
    cr_assert_eq(other.requests, 1, "nothing is sent again");
    cr_assert_eq(other.blob_bytes, 0);

    put("inc/part/h38.h", changed);
    struct seen renewed = compile_number(target, 1);
    cr_assert_str_eq(renewed.outcome, "compiled");
    cr_assert_str_neq(renewed.key, first.key);
    cr_assert_eq(renewed.requests, 3);
    cr_assert_eq(renewed.blobs, 1);
    cr_assert_eq(renewed.blob_bytes, sizeof changed - 1);
    daemon_stop_in_order(&daemon_);
}

Test(include_tree, a_tree_is_sent_once_and_a_changed_header_alone)
{
    sent_once_and_in_the_key("sm_90a");
}

Test(include_tree, the_same_on_the_host_device)
{
    sent_once_and_in_the_key("host");
}
