#include "daemon/compiler/host_cc.h"

#include <errno.h>
#include <gnu/libc-version.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/compiler/tool.h"
#include "daemon/compiler/work_dir.h"
#include "daemon/sandbox/sandbox.h"
#include "preamble/host/abi.h"
#include "preamble/host/host.h"
#include "preamble/preamble.h"

#define SAID "said"
/* Of what a tool answers to a question. */
#define ANSWER_MAX 4096
/* A stage of the compiler. */
#define STAGE_MAX (512u << 20)
#define INSTALL "install g++ (12 or later), or name another compiler with --host-cc"

static const char *const stage_names[HOST_CC_STAGES] = {"cc1plus", "as", "ld"};

/* ---- finding ---- */

static int find_program(struct host_cc *cc, const char *program, struct error *error)
{
    static const char *const folders[] = {"/usr/local/bin", "/usr/bin", "/bin"};
    char path[HOST_CC_PATH];
    if (strchr(program, '/')) {
        if (realpath(program, cc->program) && access(cc->program, X_OK) == 0)
            return 0;
        return error_set(error, STATUS_COMPILER_UNAVAILABLE, "the C++ compiler %.200s cannot be run; " INSTALL,
                         program);
    }
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        snprintf(path, sizeof path, "%s/%.255s", folders[i], program);
        if (access(path, X_OK) == 0 && realpath(path, cc->program))
            return 0;
    }
    return error_set(error, STATUS_COMPILER_UNAVAILABLE,
                     "no C++ compiler for the host device: there is no %.100s; " INSTALL, program);
}

/* A file that stands beside this executable. */
static int find_beside(const char *name, int mode, char ret[HOST_CC_PATH], struct error *error)
{
    ssize_t size = readlink("/proc/self/exe", ret, HOST_CC_PATH - 32);
    char *slash = size > 0 ? memrchr(ret, '/', (size_t)size) : NULL;
    if (!slash)
        return error_set_errno(error, STATUS_SYSTEM, errno, "finding the own executable");
    snprintf(slash + 1, 32, "%s", name);
    if (access(ret, mode) == 0)
        return 0;
    return error_set(error, STATUS_COMPILER_UNAVAILABLE, "%.400s cannot be used; it belongs beside fusiond-compiler",
                     ret);
}

/* A cache folder that cannot be written takes no compiler away. */
static int make_folder(struct host_cc *cc, const char *parent, struct error *error)
{
    if (work_dir_make(parent, cc->work, error) == 0)
        return 0;
    fprintf(stderr, "fusiond-compiler: %s, using /tmp\n", error->text);
    return work_dir_make("/tmp", cc->work, error);
}

/* Under names without a character that gcc or the dynamic linker would understand. */
static int link_helpers(struct host_cc *cc, struct error *error)
{
    const struct {
        const char *target, *name;
    } links[] = {{cc->leaf, "b/leaf"}, {cc->leaf, "b/ld"}, {cc->fence, "b/fence.so"}};
    char path[HOST_CC_PATH + 16];
    snprintf(path, sizeof path, "%s/b", cc->work);
    if (mkdir(path, 0700) < 0)
        return error_set_errno(error, STATUS_SYSTEM, errno, "making the folder b");
    for (size_t i = 0; i < sizeof links / sizeof links[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", cc->work, links[i].name);
        if (symlink(links[i].target, path) < 0)
            return error_set_errno(error, STATUS_SYSTEM, errno, "making the link %s", links[i].name);
    }
    return 0;
}

/* One question to the driver; its answer's first line. */
static int ask(const struct host_cc *cc, const char *question, char *ret, size_t room, struct error *error)
{
    const struct tool tool = {cc->program, cc->work, SAID, NULL};
    const char *const argv[] = {cc->program, question, NULL};
    char *answer;
    size_t size;
    int status;
    if (tool_run(&tool, argv, &status, error) < 0 ||
        tool_read_file(cc->work, SAID, ANSWER_MAX, &answer, &size, error) < 0)
        return -1;
    size_t line = strcspn(answer, "\n");
    bool good = status == 0 && line > 0 && line < room;
    if (good)
        snprintf(ret, room, "%.*s", (int)line, answer);
    else
        error_set(error, STATUS_COMPILER_UNAVAILABLE, "%.200s %s answers \"%.*s\"; " INSTALL, cc->program, question,
                  (int)(line < 100 ? line : 100), answer);
    free(answer);
    return good ? 0 : -1;
}

static int ask_all(struct host_cc *cc, struct error *error)
{
    char version[64];
    if (ask(cc, "-dumpfullversion", version, sizeof version, error) < 0 ||
        ask(cc, "-dumpmachine", cc->machine, sizeof cc->machine, error) < 0)
        return -1;
    if (sscanf(version, "%u.%u", &cc->major, &cc->minor) != 2)
        return error_set(error, STATUS_COMPILER_UNAVAILABLE, "%.200s has the version \"%.60s\"; " INSTALL, cc->program,
                         version);
    for (size_t i = 0; i < HOST_CC_STAGES; i++) {
        char question[64], answer[HOST_CC_PATH];
        snprintf(question, sizeof question, "-print-prog-name=%s", stage_names[i]);
        if (ask(cc, question, answer, sizeof answer, error) < 0)
            return -1;
        /* A bare name is looked for in PATH, as the driver will. */
        if (!strchr(answer, '/')) {
            char bare[64];
            snprintf(bare, sizeof bare, "%.63s", answer);
            snprintf(answer, sizeof answer, "/usr/bin/%s", bare);
        }
        if (!realpath(answer, cc->stages[i]))
            return error_set_errno(error, STATUS_COMPILER_UNAVAILABLE, errno, "%.200s has no %s (%.200s)", cc->program,
                                   stage_names[i], answer);
    }
    return 0;
}

static int write_texts(const struct host_cc *cc, struct error *error)
{
    const struct host_text *texts = host_texts();
    const struct preamble_module *modules = preamble_modules();
    char name[256];
    for (size_t i = 0; i < host_text_count; i++) {
        snprintf(name, sizeof name, "m/%s", texts[i].include);
        if (tool_write_file(cc->work, name, texts[i].text, texts[i].size, error) < 0)
            return -1;
    }
    for (size_t i = 0; i < preamble_count; i++) {
        snprintf(name, sizeof name, "m/%s", modules[i].include);
        if (tool_write_file(cc->work, name, modules[i].text, modules[i].size, error) < 0)
            return -1;
    }
    return 0;
}

int host_cc_open(struct host_cc *cc, const char *program, const char *work_parent, struct error *error)
{
    *cc = (struct host_cc){0};
    if (find_program(cc, program, error) < 0 || find_beside("fusiond-leaf", X_OK, cc->leaf, error) < 0 ||
        find_beside("fusiond-fence.so", R_OK, cc->fence, error) < 0 || make_folder(cc, work_parent, error) < 0 ||
        link_helpers(cc, error) < 0)
        return -1;
    return ask_all(cc, error) < 0 ? -1 : write_texts(cc, error);
}

/* ---- what it is ---- */

int host_cc_identity(const struct host_cc *cc, char *ret, size_t room, struct error *error)
{
    size_t used = 0;
    for (int i = -1; i < HOST_CC_STAGES; i++) {
        const char *path = i < 0 ? cc->program : cc->stages[i];
        struct stat status;
        if (stat(path, &status) < 0)
            return error_set_errno(error, STATUS_SYSTEM, errno, "looking at %.300s", path);
        int n = snprintf(ret + used, room - used, "%s%llx:%llx:%llx:%llx", used ? " " : "",
                         (unsigned long long)status.st_dev, (unsigned long long)status.st_ino,
                         (unsigned long long)status.st_size, (unsigned long long)status.st_mtim.tv_sec);
        if (n < 0 || (size_t)n >= room - used)
            return error_set(error, STATUS_INTERNAL, "the compiler's identity has more than %zu bytes", room);
        used += (size_t)n;
    }
    return 0;
}

static void add_text(crypto_generichash_state *state, const char *text)
{
    crypto_generichash_update(state, (const unsigned char *)text, strlen(text) + 1);
}

static void add_list(crypto_generichash_state *state, const char *const *list)
{
    for (; *list; list++)
        add_text(state, *list);
    add_text(state, "");
}

static int add_file(crypto_generichash_state *state, const char *path, struct error *error)
{
    char folder[HOST_CC_PATH];
    char *bytes;
    size_t size;
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
    if (tool_read_file(folder[0] ? folder : "/", slash + 1, STAGE_MAX, &bytes, &size, error) < 0)
        return -1;
    crypto_generichash_update(state, (const unsigned char *)bytes, size);
    free(bytes);
    return 0;
}

int host_cc_build(const struct host_cc *cc, uint8_t ret[DIGEST_SIZE], struct error *error)
{
    crypto_generichash_state state;
    char version[64];
    if (sodium_init() < 0)
        return error_set(error, STATUS_INTERNAL, "libsodium does not start");
    crypto_generichash_init(&state, NULL, 0, DIGEST_SIZE);
    snprintf(version, sizeof version, "fusiond host %u: %u.%u", FUSIOND_HOST_ABI, cc->major, cc->minor);
    add_text(&state, version);
    add_text(&state, cc->machine);
    /* Images need its symbols where they are loaded. */
    add_text(&state, gnu_get_libc_version());
    add_list(&state, host_compile_arguments);
    add_list(&state, host_link_arguments);
    add_list(&state, host_link_libraries);
    for (size_t i = 0; i < host_text_count; i++) {
        add_text(&state, host_texts()[i].include);
        crypto_generichash_update(&state, host_texts()[i].digest, DIGEST_SIZE);
    }
    for (int i = 0; i < HOST_CC_STAGES; i++) {
        if (add_file(&state, cc->stages[i], error) < 0)
            return -1;
    }
    crypto_generichash_final(&state, ret, DIGEST_SIZE);
    return 0;
}

static int try_program(const struct host_cc *cc, struct text program, bool should, const char *otherwise,
                       struct error *error)
{
    struct worker_job job = {.program = program, .image_kind = IMAGE_KIND_SHARED_OBJECT};
    struct worker_result result;
    msgpack_zone zone;
    if (!msgpack_zone_init(&zone, 65536))
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the warm-up");
    int status = host_cc_run(cc, &job, &zone, &result, error);
    if (status == 0 && (result.result == 0) != should)
        status = error_set(error, STATUS_COMPILER_UNAVAILABLE, "%.100s %s: %.300s", cc->program, otherwise,
                           result.log.size ? result.log.at : "no log");
    msgpack_zone_destroy(&zone);
    return status;
}

int host_cc_warm_up(const struct host_cc *cc, struct error *error)
{
    static const char good[] = "#include \"" FUSIOND_HOST_INCLUDE "\"\n"
                               "__global__ void warm_up(float *x) { *x = 1; }\n"
                               "FUSIOND_HOST_IMAGE_BEGIN\n"
                               "FUSIOND_HOST_ENTRY(\"warm_up\", warm_up)\n"
                               "FUSIOND_HOST_IMAGE_END\n";
    /* There is a /dev/null for every process; neither stage may find it. */
    static const char outside[] = "#if !__has_include(\"/dev/null\")\n"
                                  "asm(\".include \\\"/dev/null\\\"\");\n"
                                  "#endif\n";
    if (try_program(cc, TEXT_OF(good), true, "cannot compile for the host device", error) < 0)
        return -1;
    return try_program(cc, TEXT_OF(outside), false,
                       "cannot be kept from the machine's files (is it linked statically?)", error);
}

enum sandbox host_cc_enter_sandbox(const struct host_cc *cc)
{
    char folder[HOST_CC_PATH];
    snprintf(folder, sizeof folder, "%s", cc->program);
    /* /opt/gcc/bin/g++ → /opt/gcc */
    for (int i = 0; i < 2; i++) {
        char *slash = strrchr(folder, '/');
        if (slash && slash != folder)
            *slash = '\0';
    }
    const char *own = strcmp(folder, "/usr") == 0 || strcmp(folder, "/") == 0 ? "/usr/bin" : folder;
    const char *const run[] = {"/usr/bin",       "/usr/lib", "/usr/lib64", "/usr/lib32", "/usr/libexec",
                               "/bin",           "/lib",     "/lib64",     cc->leaf,     "/etc/ld.so.cache",
                               "/usr/local/lib", own,        cc->fence,    NULL};
    const char *const work[] = {cc->work, "/dev/null", NULL};
    const struct sandbox_paths paths = {run, work};
    return sandbox_enter(SANDBOX_HOST_CC, &paths);
}
