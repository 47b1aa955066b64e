#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/error.h"
#include "client/fusion.h"
#include "client/fusionctl/compile.h"
#include "client/fusionctl/print.h"
#include "client/fusionctl/progress.h"
#include "client/fusionctl/verbs.h"
#include "client/kernel.h"

/* ---- shared with run ---- */

bool compile_option(struct compile_settings *settings, int option)
{
    static const char *const names[] = {['t'] = "target",
                                        ['b'] = "compile.block_size",
                                        ['r'] = "compile.max_registers",
                                        ['i'] = "index_type",
                                        ['T'] = "compile.toolkit_headers"};
    if (option == 'D') {
        if (settings->n_defines == MAX_SETTINGS)
            return false;
        settings->defines[settings->n_defines++] = optarg;
        return true;
    }
    if (option == 'c') {
        settings->compiler = optarg;
        return true;
    }
    if (option == 'e') {
        if (settings->n_entries == MAX_SETTINGS)
            return false;
        settings->entries[settings->n_entries++] = optarg;
        return true;
    }
    if (option == 'I') {
        if (settings->n_includes == MAX_SETTINGS)
            return false;
        settings->includes[settings->n_includes++] = optarg;
        return true;
    }
    if (option == 'd') {
        long long deadline;
        if (!parse_number("--deadline", optarg, 1, 3600000, &deadline))
            return false;
        settings->deadline_ms = (uint32_t)deadline;
        return true;
    }
    if (option < 0 || (size_t)option >= sizeof names / sizeof names[0] || !names[option] ||
        settings->n_fields == MAX_SETTINGS)
        return false;
    settings->fields[settings->n_fields++] = (struct compile_field){names[option], option == 'T' ? "true" : optarg};
    return true;
}

static int add_define(struct fusiond_fusion *fusion, const char *define, struct fusiond_error *error)
{
    char *name = strdup(define);
    if (!name)
        abort();
    char *equals = strchr(name, '=');
    if (equals)
        *equals = '\0';
    int result = fusiond_fusion_add_define(fusion, name, equals ? equals + 1 : NULL, error);
    free(name);
    return result;
}

/* A text, though it may look like a number. */
static int set_compiler(struct fusiond_fusion *fusion, const char *name, struct fusiond_error *error)
{
    json_t *text = json_string(name);
    char *quoted = text ? json_dumps(text, JSON_ENCODE_ANY) : NULL;
    int result = fusiond_fusion_set_option(fusion, "compiler", quoted ? quoted : name, error);
    json_decref(text);
    free(quoted);
    return result;
}

static int fill_from_source(struct fusiond_fusion *fusion, const char *path, const struct compile_settings *settings,
                            struct fusiond_error *ret_error)
{
    char *code;
    size_t size;
    struct error error = {0};
    if (fusion_read_file(path, LIMIT_INLINE, &code, &size, &error) < 0)
        return error_export(-1, &error, ret_error);
    int result = fusiond_fusion_set_code(fusion, code, size, true, ret_error);
    free(code);
    for (size_t i = 0; result == 0 && i < settings->n_entries; i++)
        result = fusiond_fusion_add_entry(fusion, settings->entries[i], ret_error);
    /* There is nothing that tells its outputs. */
    if (result == 0)
        result = fusiond_fusion_set_option(fusion, "side_effects_only", "true", ret_error);
    if (result == 0 && !(fusion->code_path = strdup(path)))
        abort();
    return result;
}

static int load(const char *path, const struct compile_settings *settings, struct fusiond_fusion **ret,
                struct fusiond_error *error)
{
    if (settings->n_entries == 0)
        return fusiond_fusion_load(path, ret, error);
    struct fusiond_fusion *fusion = fusiond_fusion_create();
    if (!fusion)
        abort();
    if (fill_from_source(fusion, path, settings, error) < 0) {
        fusiond_fusion_destroy(fusion);
        return -1;
    }
    *ret = fusion;
    return 0;
}

int compile_load(const char *path, const struct compile_settings *settings, struct fusiond_fusion **ret,
                 struct fusiond_error *error)
{
    struct fusiond_fusion *fusion;
    if (load(path, settings, &fusion, error) < 0)
        return -1;
    int result = 0;
    for (size_t i = 0; result == 0 && i < settings->n_fields; i++)
        result = fusiond_fusion_set_option(fusion, settings->fields[i].name, settings->fields[i].value, error);
    if (result == 0 && settings->compiler)
        result = set_compiler(fusion, settings->compiler, error);
    for (size_t i = 0; result == 0 && i < settings->n_defines; i++)
        result = add_define(fusion, settings->defines[i], error);
    if (result == 0 && settings->n_includes)
        result = fusiond_fusion_add_include_tree(fusion, NULL, settings->includes, settings->n_includes, error);
    if (result < 0) {
        fusiond_fusion_destroy(fusion);
        return -1;
    }
    *ret = fusion;
    return 0;
}

void compile_print_failure(const struct fusiond_connection *connection, const struct fusiond_fusion *fusion)
{
    bool colours = print_colours(stderr);
    size_t n = fusiond_failure_diagnostics(connection);
    for (size_t i = 0; i < n; i++) {
        struct fusiond_diagnostic diagnostic = fusiond_failure_diagnostic(connection, i);
        bool is_error = strcmp(diagnostic.severity, "error") == 0;
        const char *file = diagnostic.file;
        if (file && strcmp(file, "fusion.cu") == 0 && fusion->code_path)
            file = fusion->code_path;
        if (file)
            fprintf(stderr, "%s:", file);
        if (file && diagnostic.line)
            fprintf(stderr, "%u:", diagnostic.line);
        if (file && diagnostic.line && diagnostic.column)
            fprintf(stderr, "%u:", diagnostic.column);
        fprintf(stderr, "%s%s%s:%s %s\n", file ? " " : "", colours ? is_error ? "\033[1;31m" : "\033[1;35m" : "",
                diagnostic.severity, colours ? "\033[0m" : "", diagnostic.text);
    }
    if (n == 0)
        fputs(fusiond_failure_log(connection), stderr);
}

void compile_print_notes(const char *path, const struct fusiond_kernel *kernel)
{
    if (*fusiond_kernel_overridden(kernel))
        fprintf(stderr, "%s: overridden: %s\n", path, fusiond_kernel_overridden(kernel));
    for (size_t i = 0; i < fusiond_kernel_notes(kernel); i++)
        fprintf(stderr, "%s: note: %s\n", path, fusiond_kernel_note(kernel, i));
}

/* ---- the verb ---- */

static void print_kernel(const char *path, const struct fusiond_kernel *kernel)
{
    char size[PRINT_ROOM], took[PRINT_ROOM], queued[PRINT_ROOM];
    const char *label = fusiond_kernel_label(kernel);
    const char *index_type = fusiond_kernel_index_type(kernel);
    printf("%s  %.12s  %s%s%s  %s %s", *label ? label : path, fusiond_kernel_key(kernel), fusiond_kernel_target(kernel),
           *index_type ? " " : "", index_type, fusiond_kernel_image_kind(kernel),
           print_size(kernel->message.image_size, size));
    for (size_t i = 0; i < fusiond_kernel_entries(kernel); i++) {
        struct fusiond_entry entry = fusiond_kernel_entry(kernel, i);
        if (entry.registers >= 0)
            printf("  %s: %lld registers", entry.name, (long long)entry.registers);
        if (entry.spill_stores > 0 || entry.spill_loads > 0)
            printf(", spills %lld + %lld bytes", (long long)entry.spill_stores, (long long)entry.spill_loads);
    }
    printf("  %s", fusiond_kernel_outcome(kernel));
    if (fusiond_kernel_compile_ns(kernel) > 0)
        printf(" in %s (queued %s)", print_time(fusiond_kernel_compile_ns(kernel), took),
               print_time(fusiond_kernel_queue_ns(kernel), queued));
    printf("%s\n", fusiond_kernel_stored(kernel) ? "" : ", not stored");
    for (size_t i = 0; i < fusiond_kernel_warnings(kernel); i++)
        fprintf(stderr, "%s: warning: %s\n", path, fusiond_kernel_warning(kernel, i));
}

static void print_json(const char *path, const struct fusiond_kernel *kernel)
{
    fputs("{\"file\": ", stdout);
    print_json_string(path, stdout);
    if (*fusiond_kernel_overridden(kernel)) {
        fputs(", \"overridden\": ", stdout);
        print_json_string(fusiond_kernel_overridden(kernel), stdout);
    }
    if (fusiond_kernel_ordinal(kernel))
        printf(", \"ordinal\": %u", fusiond_kernel_ordinal(kernel));
    printf(", \"outcome\": \"%s\", \"stored\": %s, \"queue_ns\": %llu, \"compile_ns\": %llu, \"kernel\": ",
           fusiond_kernel_outcome(kernel), fusiond_kernel_stored(kernel) ? "true" : "false",
           (unsigned long long)fusiond_kernel_queue_ns(kernel), (unsigned long long)fusiond_kernel_compile_ns(kernel));
    message_print(&kernel_type, &kernel->message, stdout, -1);
    puts("}");
}

/* With --json the dump says nothing: the standard output is the answer alone. */
static int dump(struct fusiond_connection *connection, const struct fusiond_kernel *kernel,
                const struct compile_settings *settings, bool json)
{
    json_t *report = json ? json_array() : NULL;
    int result =
        settings->dump.folder ? dump_kernel(connection, fusiond_kernel_key(kernel), &settings->dump, NULL, report) : 0;
    json_decref(report);
    return result;
}

static int compile_one(struct fusiond_connection *connection, const char *path, struct compile_settings *settings,
                       bool json)
{
    struct fusiond_fusion *fusion;
    struct fusiond_kernel *kernel;
    struct fusiond_error error;
    struct fusiond_compile_options options = {
        .deadline_ms = settings->deadline_ms,
        .parts = (settings->log ? FUSIOND_LOG : 0) | (json ? FUSIOND_DETAILS : 0),
        .priority = settings->priority,
        .cache = settings->cache,
        .on_progress = json ? NULL : progress_take,
    };
    if (compile_load(path, settings, &fusion, &error) < 0)
        return fail(&error);
    int result = 0;
    if (!json)
        progress_begin(path);
    int status = fusiond_compile(connection, fusion, &options, &kernel, &error);
    if (!json)
        progress_end();
    if (status < 0) {
        compile_print_failure(connection, fusion);
        fprintf(stderr, "%s: ", path);
        result = fail(&error);
    } else {
        if (json)
            print_json(path, kernel);
        else
            print_kernel(path, kernel);
        compile_print_notes(path, kernel);
        if (settings->log && !json && fusiond_kernel_log(kernel))
            fputs(fusiond_kernel_log(kernel), stdout);
        result = dump(connection, kernel, settings, json);
        fusiond_kernel_destroy(kernel);
    }
    fusiond_fusion_destroy(fusion);
    return result;
}

static bool parse_priority(const char *word, enum fusiond_priority *ret)
{
    for (int value = 1; priority_word(value); value++) {
        if (strcmp(word, priority_word(value)) == 0) {
            *ret = (enum fusiond_priority)value;
            return true;
        }
    }
    fprintf(stderr, "fusionctl: --priority: \"%s\" is none of interactive, normal, background\n", word);
    return false;
}

static bool parse_cache_mode(const char *word, enum fusiond_cache_mode *ret)
{
    for (int value = 1; cache_mode_word(value); value++) {
        if (strcmp(word, cache_mode_word(value)) == 0) {
            *ret = (enum fusiond_cache_mode)value;
            return true;
        }
    }
    fprintf(stderr, "fusionctl: --cache: \"%s\" is none of use, require, bypass, refresh\n", word);
    return false;
}

/* Options that `run` does not have. False when it is none of them, or its value is wrong. */
static bool own_option(struct compile_settings *settings, int option)
{
    switch (option) {
    case 'l':
        settings->log = true;
        return true;
    case 'p':
        return parse_priority(optarg, &settings->priority);
    case 'm':
        return parse_cache_mode(optarg, &settings->cache);
    case 'R':
        settings->cache = FUSIOND_CACHE_REQUIRE;
        return true;
    default:
        return false;
    }
}

static int run(int argc, char **argv, struct common *common)
{
    static const struct option options[] = {COMPILE_OPTIONS,
                                            {"log", no_argument, NULL, 'l'},
                                            {"priority", required_argument, NULL, 'p'},
                                            {"cache", required_argument, NULL, 'm'},
                                            {"require-cached", no_argument, NULL, 'R'},
                                            DUMP_OPTIONS,
                                            COMMON_OPTIONS,
                                            {0}};
    struct compile_settings settings = {0};
    int option, result = 0;
    while ((option = getopt_long(argc, argv, COMPILE_LETTERS, options, NULL)) != -1) {
        if (common_take(common, option))
            continue;
        if (!own_option(&settings, option) && !dump_option(&settings.dump, option) &&
            !compile_option(&settings, option))
            return usage_error(&verb_compile, NULL);
    }
    if (!common_check(&verb_compile, common, argc - optind, 1, 1 << 20, &result))
        return result;
    struct fusiond_connection *connection = connect_daemon(common, &result);
    if (!connection)
        return result;
    /* All files are tried; the first failure gives the exit code. */
    for (int i = optind; i < argc; i++) {
        int one = compile_one(connection, argv[i], &settings, common->json);
        result = result ? result : one;
        if (one == EXIT_UNREACHABLE)
            break;
    }
    fusiond_close(connection);
    return result;
}

const struct verb verb_compile = {
    .name = "compile",
    .summary = "compile fusion files, or find them compiled",
    .help = "usage: fusionctl compile FILE… [options]\n\n"
            "Each FILE is a fusion file: JSON beside its code (docs/fusion-file.md). Errors of the compiler are\n"
            "printed with your own file name and lines.\n\n" COMPILE_HELP
            "      --log             print the compiler's log\n"
            "      --priority P      interactive, normal or background: whose compile comes first\n"
            "                        (default: interactive)\n"
            "      --cache MODE      use, require (compile nothing), bypass (compile anew, keep nothing), or refresh\n"
            "                        (compile anew, replace what is kept)\n"
            "      --require-cached  --cache require\n" DUMP_HELP COMMON_HELP,
    .run = run,
};
