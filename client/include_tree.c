/*
 * The files that a fusion's code includes, collected into its headers.
 *
 * A compiler that is given headers in memory looks for exactly the name between the quotes, wherever that stands. So
 * every file gets one name, and a text that refers to it by another one ("../b.h", a sibling's "b.h") is changed to
 * that, on its own line. A name is the way from the include folder, or from the code's own folder: the key of a kernel
 * does not depend on where these are.
 */
#include <errno.h>
#include <limits.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "client/error.h"
#include "client/fusion.h"
#include "client/include_scan.h"
#include "kernels_db/kernel_key.h"

/* Found beside the including file, and not in a folder of the list. */
#define NO_FOLDER SIZE_MAX

/* Files are told apart by their real paths. The code itself is the first, without one. */
struct file {
    char *real; /* NULL: the code */
    char *path; /* as it was found; for messages, and for what is relative to it */
    char *name;
    char *text;
    size_t size;
    size_t folder;
};

struct tree {
    struct fusiond_fusion *fusion;
    const char *const *folders;
    size_t n_folders;
    struct file **files;
    size_t n, room;
    void *by_real;    /* tsearch: struct file */
    void *by_name;    /* tsearch: struct file and, wrapped alike, the fusion's own headers */
    struct file *own; /* as many as the fusion has headers already: only their names */
    size_t n_own;
    size_t bytes;
    bool toolkit; /* what is not found may be one of the toolkit's */
};

static int compare_reals(const void *a, const void *b)
{
    return strcmp(((const struct file *)a)->real, ((const struct file *)b)->real);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct file *)a)->name, ((const struct file *)b)->name);
}

static void keep_node(void *node)
{
    (void)node;
}

static int no_memory(struct error *error)
{
    return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for an include tree");
}

static void file_destroy(struct file *file)
{
    if (!file)
        return;
    free(file->real);
    free(file->path);
    free(file->name);
    free(file->text);
    free(file);
}

static void tree_finish(struct tree *tree)
{
    tdestroy(tree->by_real, keep_node);
    tdestroy(tree->by_name, keep_node);
    for (size_t i = 0; i < tree->n; i++)
        file_destroy(tree->files[i]);
    free(tree->files);
    free(tree->own);
}

/* ---- names ---- */

static bool is_taken(const struct tree *tree, const char *name)
{
    const struct file wanted = {.name = (char *)(uintptr_t)name};
    return tfind(&wanted, &tree->by_name, compare_names) != NULL;
}

/* `folder` and `path` as one way without "." and "..". False when it leads out, or the daemon would refuse it. */
static bool flatten(const char *folder, size_t folder_size, const char *path, char ret[LIMIT_NAME + 1])
{
    const char *const parts[] = {folder, path};
    const size_t sizes[] = {folder_size, strlen(path)};
    size_t size = 0;
    if (path[0] == '/')
        return false;
    for (int i = 0; i < 2; i++) {
        const char *at = parts[i], *end = at + sizes[i];
        while (at < end) {
            const char *slash = memchr(at, '/', (size_t)(end - at));
            size_t n = (size_t)((slash ? slash : end) - at);
            if (n == 2 && memcmp(at, "..", 2) == 0) {
                if (size == 0)
                    return false;
                while (size > 0 && ret[--size] != '/')
                    ;
            } else if (n > 0 && !(n == 1 && *at == '.')) {
                if (size + n + 1 > LIMIT_NAME)
                    return false;
                if (size)
                    ret[size++] = '/';
                memcpy(ret + size, at, n);
                size += n;
            }
            at += n + (slash != NULL);
        }
    }
    ret[size] = '\0';
    for (size_t i = 0; i < size; i++)
        if (ret[i] < ' ' || ret[i] > '~' || strchr("\\\"<>", ret[i]))
            return false;
    return size > 0 && strncmp(ret, "fusiond/", 8) != 0 && strcmp(ret, "fusion.cu") != 0;
}

/* For what has no way of its own, or one that another file has: by its text. */
static void name_by_text(const struct tree *tree, const struct file *file, char ret[LIMIT_NAME + 1])
{
    uint8_t digest[DIGEST_SIZE];
    char hex[KEY_HEX];
    digest_of(file->text, file->size, digest);
    key_to_hex(digest, hex);
    snprintf(ret, LIMIT_NAME + 1, "include-tree/%.16s.h", hex);
    for (unsigned i = 1; is_taken(tree, ret); i++)
        snprintf(ret, LIMIT_NAME + 1, "include-tree/%.16s-%u.h", hex, i);
}

static int name_file(struct tree *tree, struct file *file, const struct file *includer, const char *spelled,
                     struct error *error)
{
    char name[LIMIT_NAME + 1];
    const char *slash = file->folder == NO_FOLDER && includer->name ? strrchr(includer->name, '/') : NULL;
    size_t folder_size = slash ? (size_t)(slash - includer->name) : 0;
    /* What lies beside a file that has no way of its own has none either. */
    bool stray = slash && strncmp(includer->name, "include-tree/", 13) == 0;
    if (stray || !flatten(slash ? includer->name : "", folder_size, spelled, name) || is_taken(tree, name))
        name_by_text(tree, file, name);
    file->name = strdup(name);
    if (!file->name || !tsearch(file, &tree->by_name, compare_names))
        return no_memory(error);
    return 0;
}

/* ---- finding ---- */

/* 1 a regular file, 0 nothing of the kind, -1 error. */
static int look(const char *path, const struct file *includer, const struct include_site *site, struct error *error)
{
    struct stat status;
    if (stat(path, &status) == 0) {
        if (S_ISREG(status.st_mode))
            return 1;
        if (S_ISDIR(status.st_mode))
            return 0;
        return error_set(error, STATUS_INVALID_FILE, "%.150s:%u: includes \"%.100s\": %.150s is no regular file",
                         includer->path, site->line, site->name, path);
    }
    if (errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG)
        return 0;
    return error_set_errno(error, STATUS_INVALID_FILE, errno, "%.150s:%u: includes \"%.100s\": %.150s", includer->path,
                           site->line, site->name, path);
}

/* The next place to look: beside the includer, then the folders. NULL: no more. To be freed. */
static char *place(const struct tree *tree, const struct file *includer, const struct include_site *site, size_t which,
                   size_t *ret_folder)
{
    char *path = NULL;
    bool is_next = site->kind == INCLUDE_NEXT || site->kind == INCLUDE_HAS_NEXT;
    const char *slash = strrchr(includer->path, '/');
    *ret_folder = NO_FOLDER;
    if (which > tree->n_folders)
        return NULL;
    if (which == 0 && site->name[0] == '/')
        return strdup(site->name);
    if (which == 0 && (site->angled || is_next))
        return strdup("");
    if (which == 0)
        return asprintf(&path, "%.*s%s", slash ? (int)(slash + 1 - includer->path) : 0, includer->path, site->name) < 0
                   ? NULL
                   : path;
    *ret_folder = which - 1;
    if (site->name[0] == '/' || (is_next && includer->folder != NO_FOLDER && which - 1 <= includer->folder))
        return strdup("");
    return asprintf(&path, "%s/%s", tree->folders[which - 1], site->name) < 0 ? NULL : path;
}

/* Where the file lies: 1 *ret_path (to be freed), 0 nowhere, -1 error. */
static int find(const struct tree *tree, const struct file *includer, const struct include_site *site, char **ret_path,
                size_t *ret_folder, struct error *error)
{
    for (size_t which = 0; which <= tree->n_folders; which++) {
        char *path = place(tree, includer, site, which, ret_folder);
        if (!path)
            return no_memory(error);
        int found = path[0] ? look(path, includer, site, error) : 0;
        if (found == 1)
            *ret_path = path;
        else
            free(path);
        if (found != 0)
            return found;
    }
    return 0;
}

/* ---- files ---- */

static int append(struct tree *tree, struct file *file, struct error *error)
{
    if (tree->n == tree->room) {
        size_t room = tree->room ? 2 * tree->room : 64;
        struct file **files = reallocarray(tree->files, room, sizeof *files);
        if (!files)
            return no_memory(error);
        tree->files = files;
        tree->room = room;
    }
    tree->files[tree->n++] = file;
    return 0;
}

static int count(struct tree *tree, const struct file *file, struct error *error)
{
    tree->bytes += file->size;
    if (tree->n - 1 + tree->n_own >= LIMIT_HEADERS)
        return error_set(error, STATUS_INVALID_FILE, "the include tree has more than %u files; the last is %.200s",
                         LIMIT_HEADERS, file->path);
    if (tree->bytes > LIMIT_HEADER_BYTES)
        return error_set(error, STATUS_INVALID_FILE,
                         "the include tree has more than %u bytes in %zu files; the last is %.200s", LIMIT_HEADER_BYTES,
                         tree->n, file->path);
    return 0;
}

/* The path is taken over. */
static int load(struct tree *tree, char *path, char *real, size_t folder, const struct file *includer,
                const struct include_site *site, struct file **ret, struct error *error)
{
    struct file *file = calloc(1, sizeof *file);
    if (!file) {
        free(path);
        free(real);
        return no_memory(error);
    }
    *file = (struct file){.real = real, .path = path, .folder = folder};
    if (fusion_read_file(path, LIMIT_BLOB, &file->text, &file->size, error) < 0) {
        error_wrap(error, "%.150s:%u: includes \"%.100s\"", includer->path, site->line, site->name);
    } else if (count(tree, file, error) == 0 && append(tree, file, error) == 0) {
        *ret = file; /* the tree's from here on */
        return name_file(tree, file, includer, site->name, error) < 0 || !tsearch(file, &tree->by_real, compare_reals)
                   ? no_memory(error)
                   : 0;
    }
    file_destroy(file);
    return -1;
}

/* The file that a site means; NULL when it is to be left as it is. */
static int resolve(struct tree *tree, const struct file *includer, const struct include_site *site, struct file **ret,
                   struct error *error)
{
    char *path = NULL, *real;
    size_t folder;
    *ret = NULL;
    for (size_t i = 0; i < tree->n_own; i++)
        if (strcmp(tree->own[i].name, site->name) == 0)
            return 0;
    if (strncmp(site->name, "fusiond/", 8) == 0)
        return 0;
    int found = find(tree, includer, site, &path, &folder, error);
    if (found < 0)
        return -1;
    if (found == 0) {
        if (site->kind != INCLUDE_PLAIN || site->angled || site->depth > 0 || tree->toolkit)
            return 0;
        return error_set(error, STATUS_INVALID_FILE,
                         "%.150s:%u: includes \"%.150s\", which is neither beside it nor in the %zu include folders",
                         includer->path, site->line, site->name, tree->n_folders);
    }
    if (!(real = realpath(path, NULL))) {
        error_set_errno(error, STATUS_INVALID_FILE, errno, "%.150s:%u: includes \"%.100s\": %.150s", includer->path,
                        site->line, site->name, path);
        free(path);
        return -1;
    }
    const struct file wanted = {.real = real};
    struct file *const *known = tfind(&wanted, &tree->by_real, compare_reals);
    if (!known)
        return load(tree, path, real, folder, includer, site, ret, error);
    free(path);
    free(real);
    *ret = *known;
    return 0;
}

/* ---- texts ---- */

/* In place of the site, with as many lines. */
static void write_site(FILE *out, const char *text, const struct include_site *site, const char *name)
{
    static const char *const words[] = {
        [INCLUDE_PLAIN] = "", [INCLUDE_NEXT] = "include ", [INCLUDE_HAS] = "", [INCLUDE_HAS_NEXT] = "__has_include("};
    fprintf(out, "%s\"%s\"", words[site->kind], name);
    for (size_t i = site->from; i < site->to; i++)
        if (text[i] == '\n')
            fputs("\\\n", out);
}

/* A definition's text may be used for something else, so it stays, and the file has a second name. */
static int add_alias(struct tree *tree, const struct file *file, const char *spelled, struct error *error)
{
    char flat[LIMIT_NAME + 1];
    if (!flatten("", 0, spelled, flat) || strcmp(flat, spelled) != 0 || is_taken(tree, spelled))
        return 0;
    struct file *alias = calloc(1, sizeof *alias);
    if (!alias)
        return no_memory(error);
    *alias = (struct file){
        .path = strdup(file->path), .name = strdup(spelled), .text = malloc(64 + LIMIT_NAME), .folder = file->folder};
    if (!alias->path || !alias->name || !alias->text || append(tree, alias, error) < 0) {
        file_destroy(alias);
        return no_memory(error);
    }
    alias->size = (size_t)snprintf(alias->text, 64 + LIMIT_NAME, "#include \"%s\"\n", file->name);
    return tsearch(alias, &tree->by_name, compare_names) ? count(tree, alias, error) : no_memory(error);
}

static int write_text(struct tree *tree, struct file *file, const struct include_sites *sites, FILE *out,
                      struct error *error)
{
    size_t done = 0;
    for (size_t i = 0; i < sites->n; i++) {
        const struct include_site *site = &sites->at[i];
        struct file *target;
        if (resolve(tree, file, site, &target, error) < 0)
            return -1;
        bool is_next = site->kind == INCLUDE_NEXT || site->kind == INCLUDE_HAS_NEXT;
        if (!target || (!is_next && strcmp(target->name, site->name) == 0))
            continue;
        if (site->kind == INCLUDE_MACRO) {
            if (add_alias(tree, target, site->name, error) < 0)
                return -1;
            continue;
        }
        fwrite(file->text + done, 1, site->from - done, out);
        write_site(out, file->text, site, target->name);
        done = site->to;
    }
    fwrite(file->text + done, 1, file->size - done, out);
    return 0;
}

/* Load what the file includes, and make it speak of it by its names. */
static int follow(struct tree *tree, struct file *file, struct error *error)
{
    struct include_sites sites;
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    int result = include_scan(file->text, file->size, &sites) < 0 || !out ? no_memory(error) : 0;
    if (result == 0)
        result = write_text(tree, file, &sites, out, error);
    if (out && fclose(out) != 0 && result == 0)
        result = no_memory(error);
    include_sites_finish(&sites);
    if (result < 0) {
        free(text);
        return -1;
    }
    free(file->text);
    file->text = text;
    file->size = size;
    return 0;
}

/* ---- the fusion ---- */

static int begin(struct tree *tree, const char *source_path, struct error *error)
{
    struct fusiond_fusion *fusion = tree->fusion;
    const char *path = source_path ? source_path : fusion->code_path ? fusion->code_path : "fusion.cu";
    struct file *code = calloc(1, sizeof *code);
    if (!code || append(tree, code, error) < 0) {
        free(code);
        return no_memory(error);
    }
    code->folder = NO_FOLDER;
    code->path = strdup(path);
    code->text = malloc(fusion->code_size + 1);
    tree->own = calloc(fusion->n_headers + 1, sizeof *tree->own);
    if (!code->path || !code->text || !tree->own)
        return no_memory(error);
    memcpy(code->text, fusion->code, fusion->code_size);
    code->size = fusion->code_size;
    for (; tree->n_own < fusion->n_headers; tree->n_own++) {
        tree->own[tree->n_own].name = fusion->headers[tree->n_own].name;
        tree->bytes += fusion->headers[tree->n_own].size;
        if (!tsearch(&tree->own[tree->n_own], &tree->by_name, compare_names))
            return no_memory(error);
    }
    const json_t *options = json_object_get(fusion->tree, "compile");
    tree->toolkit = json_is_true(json_object_get(options, "toolkit_headers"));
    return 0;
}

/* All is found: it becomes the fusion's. */
static int finish(struct tree *tree, struct error *error)
{
    struct fusiond_fusion *fusion = tree->fusion;
    struct file *code = tree->files[0];
    for (size_t i = 1; i < tree->n; i++) {
        struct file *file = tree->files[i];
        char *text = file->text;
        file->text = NULL;
        if (fusion_take_header(fusion, file->name, text, file->size, error) < 0)
            return -1;
    }
    free(fusion->code);
    fusion->code = code->text;
    fusion->code_size = code->size;
    code->text = NULL;
    return 0;
}

int fusiond_fusion_add_include_tree(struct fusiond_fusion *fusion, const char *source_path, const char *const *folders,
                                    size_t n_folders, struct fusiond_error *ret_error)
{
    struct tree tree = {.fusion = fusion, .folders = folders, .n_folders = n_folders};
    struct error error = {0};
    int result = -1;
    if (!fusion->code)
        error_set(&error, STATUS_MISSING_FIELD, "code: needed before its include tree");
    else
        result = begin(&tree, source_path, &error);
    for (size_t i = 0; result == 0 && i < tree.n; i++)
        result = follow(&tree, tree.files[i], &error);
    if (result == 0)
        result = finish(&tree, &error);
    tree_finish(&tree);
    return error_export(result, &error, ret_error);
}
