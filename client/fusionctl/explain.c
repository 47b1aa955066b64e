/* Why a fusion hits or misses, for people. */
#include "client/explain.h"

#include <stdio.h>
#include <string.h>

#include "client/fusionctl/compile.h"
#include "client/fusionctl/print.h"
#include "client/fusionctl/verbs.h"

/* Names before numbers: what follows the first so many is counted. */
#define MAX_ROWS 24

static bool colours;

static const char *bold(void)
{
    return colours ? "\033[1m" : "";
}

static const char *plain(void)
{
    return colours ? "\033[0m" : "";
}

static void row(const char *name, const char *value)
{
    if (value && *value)
        printf("  %-16s %s\n", name, value);
}

static void digest_row(const char *name, const char *what, const uint8_t *digest)
{
    char hex[KEY_HEX];
    key_to_hex(digest, hex);
    printf("  %-16s %.16s  %s\n", name, hex, what);
}

static void print_list(const char *name, const struct header_digest *list, size_t n)
{
    for (size_t i = 0; i < n && i < MAX_ROWS; i++)
        digest_row(i ? "" : name, list[i].name.at, list[i].digest);
    if (n > MAX_ROWS)
        printf("  %-16s … and %zu more\n", "", n - MAX_ROWS);
}

static void print_parts(const struct explain_reply *reply)
{
    char size[PRINT_ROOM], renamed[64];
    printf("%smade of%s\n", bold(), plain());
    digest_row("compiler", reply->compiler.at, reply->build);
    row("target", reply->target.at);
    row("image kind", image_kind_word((int)reply->image_kind));
    row("index type", index_type_word((int)reply->index_type));
    row("structured", reply->structured ? "yes" : "no");
    for (size_t i = 0; i < reply->n_args; i++)
        row(i ? "" : "args", reply->args[i].at);
    print_list("modules", reply->modules, reply->n_modules);
    print_list("headers", reply->headers, reply->n_headers);
    for (size_t i = 0; i < reply->n_entries; i++)
        row(i ? "" : "entries", reply->entries[i].at);
    snprintf(renamed, sizeof renamed, "%llu of them out of the key", (unsigned long long)reply->renamed);
    row("names", renamed);
    row("", reply->names_kept.at);
    digest_row("code", print_size(reply->code_size, size), reply->code);
}

static void print_difference(const struct difference *difference)
{
    const char *wanted = difference->wanted.at ? difference->wanted.at : "";
    const char *stored = difference->stored.at ? difference->stored.at : "";
    printf("  %-16s %swanted%s  %s\n", difference->field.at, bold(), plain(), *wanted ? wanted : "(none)");
    printf("  %-16s %sstored%s  %s\n", "", bold(), plain(), *stored ? stored : "(none)");
}

static void print_nearest(const struct nearest_kernel *nearest)
{
    static const char *const words[] = {
        [KINSHIP_CODE] = "the same code", [KINSHIP_LABEL] = "the same label", [KINSHIP_HEADERS] = "the same headers"};
    char hex[KEY_HEX], age[PRINT_ROOM];
    size_t n = sizeof words / sizeof words[0];
    key_to_hex(nearest->key, hex);
    printf("%snearest%s  %.12s  %s%swith %s, compiled %s ago by %s\n", bold(), plain(), hex,
           nearest->label.at ? nearest->label.at : "", nearest->label.at ? ", " : "",
           (size_t)nearest->kinship < n && words[nearest->kinship] ? words[nearest->kinship] : "something in common",
           print_age(nearest->created_unix_s, age), nearest->compiler.at);
    for (size_t i = 0; i < nearest->n_differences; i++)
        print_difference(&nearest->differences[i]);
    if (nearest->more)
        printf("  … and %llu more differences\n", (unsigned long long)nearest->more);
    if (nearest->n_differences == 0)
        printf("  no difference that a record shows\n");
}

static void print_explanation(const char *path, const struct fusiond_explanation *explanation)
{
    const struct explain_reply *reply = &explanation->message;
    const char *found = fusiond_explanation_found(explanation);
    printf("%s%s  %s%s: ", bold(), path, *found ? "hit" : "miss", plain());
    if (*found)
        printf("in %s%s\n", strcmp(found, "database") == 0 ? "the " : "", found);
    else
        printf("%s\n", reply->under_way ? "its compile is under way" : "it would be compiled");
    printf("%skey%s      %s\n", bold(), plain(), explanation->key);
    row("overridden by", reply->overridden.at);
    if (reply->failure)
        printf("%sfailed%s   a short while ago: %s: %s\n", bold(), plain(), reply->failure->name.at,
               reply->failure->text.at);
    if (reply->nearest)
        print_nearest(reply->nearest);
    else if (!*found)
        printf("%snearest%s  nothing of this code, label or headers is stored\n", bold(), plain());
    print_parts(reply);
}

static int explain_one(struct fusiond_connection *connection, const char *path, const struct compile_settings *settings,
                       bool json)
{
    struct fusiond_fusion *fusion;
    struct fusiond_explanation *explanation;
    struct fusiond_error error;
    if (compile_load(path, settings, &fusion, &error) < 0)
        return fail(&error);
    int result = 0;
    if (fusiond_explain(connection, fusion, NULL, &explanation, &error) < 0) {
        fprintf(stderr, "%s: ", path);
        result = fail(&error);
    } else {
        if (json)
            puts(fusiond_explanation_json(explanation));
        else
            print_explanation(path, explanation);
        fusiond_explanation_destroy(explanation);
    }
    fusiond_fusion_destroy(fusion);
    return result;
}

static int run(int argc, char **argv, struct common *common)
{
    static const struct option options[] = {COMPILE_OPTIONS, COMMON_OPTIONS, {0}};
    struct compile_settings settings = {0};
    int option, result = 0;
    while ((option = getopt_long(argc, argv, COMPILE_LETTERS, options, NULL)) != -1) {
        if (!common_take(common, option) && !compile_option(&settings, option))
            return usage_error(&verb_explain, NULL);
    }
    if (!common_check(&verb_explain, common, argc - optind, 1, 1 << 20, &result))
        return result;
    struct fusiond_connection *connection = connect_daemon(common, &result);
    if (!connection)
        return result;
    colours = print_colours(stdout);
    for (int i = optind; i < argc; i++) {
        if (i > optind && !common->json)
            putchar('\n');
        int one = explain_one(connection, argv[i], &settings, common->json);
        result = result ? result : one;
        if (one == EXIT_UNREACHABLE)
            break;
    }
    fusiond_close(connection);
    return result;
}

const struct verb verb_explain = {
    .name = "explain",
    .summary = "why a fusion is found or not: its key, and what is nearest",
    .help = "usage: fusionctl explain FILE… [options]\n\n"
            "Tells the key of each fusion file, of what it is made, whether its kernel is there, and when it is not,\n"
            "in what the nearest one differs. Compiles nothing.\n\n" COMPILE_HELP COMMON_HELP,
    .run = run,
};
