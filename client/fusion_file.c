/* Fusion files: see docs/fusion-file.md. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/error.h"
#include "client/fusion.h"

/* A description is small; code and headers have the limits of the wire. */
#define MAX_JSON (4u << 20)

int fusion_read_file(const char *path, size_t limit, char **ret, size_t *ret_size, struct error *error)
{
    char *bytes = NULL;
    size_t size = 0;
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return error_set_errno(error, STATUS_INVALID_FILE, errno, "%s", path);
    if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode)) {
        error_set(error, STATUS_INVALID_FILE, "%s: not a regular file", path);
        goto fail;
    }
    if ((uint64_t)status.st_size > limit) {
        error_set(error, STATUS_INVALID_FILE, "%s: %lld bytes are above the limit of %zu", path,
                  (long long)status.st_size, limit);
        goto fail;
    }
    bytes = malloc((size_t)status.st_size + 1);
    if (!bytes) {
        error_set(error, STATUS_OUT_OF_MEMORY, "%s: no memory for %lld bytes", path, (long long)status.st_size);
        goto fail;
    }
    while (size < (size_t)status.st_size) {
        ssize_t n = read(fd, bytes + size, (size_t)status.st_size - size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            error_set_errno(error, STATUS_INVALID_FILE, errno, "%s", path);
            goto fail;
        }
        if (n == 0)
            break;
        size += (size_t)n;
    }
    close(fd);
    bytes[size] = '\0';
    *ret = bytes;
    *ret_size = size;
    return 0;
fail:
    free(bytes);
    close(fd);
    return -1;
}

/* The path of a file that a description names: relative to the folder of the description. */
static char *beside(const char *description, const char *name)
{
    const char *slash = strrchr(description, '/');
    char *path = NULL;
    if (name[0] == '/' || !slash)
        return strdup(name);
    if (asprintf(&path, "%.*s/%s", (int)(slash - description), description, name) < 0)
        return NULL;
    return path;
}

static int read_beside(const char *description, const char *field, const char *name, size_t limit, char **ret_path,
                       char **ret, size_t *ret_size, struct error *error)
{
    char *path = beside(description, name);
    if (!path)
        return error_set(error, STATUS_OUT_OF_MEMORY, "%s: no memory for a path", field);
    if (fusion_read_file(path, limit, ret, ret_size, error) < 0) {
        free(path);
        return error_wrap(error, "%s", field);
    }
    *ret_path = path;
    return 0;
}

/* Take "code" out of the tree and read the file that it names. */
static int load_code(struct fusiond_fusion *fusion, struct error *error)
{
    const json_t *name = json_object_get(fusion->tree, "code");
    if (!name)
        return error_set(error, STATUS_MISSING_FIELD, "code: needed, but absent");
    if (!json_is_string(name))
        return error_set(error, STATUS_INVALID_FIELD, "code: must be a string, the name of a file");
    if (read_beside(fusion->path, "code", json_string_value(name), LIMIT_INLINE, &fusion->code_path, &fusion->code,
                    &fusion->code_size, error) < 0)
        return -1;
    json_object_del(fusion->tree, "code");
    return 0;
}

/* Take "headers" out of the tree and read the files. */
static int load_headers(struct fusiond_fusion *fusion, struct error *error)
{
    const char *name;
    json_t *file;
    json_t *headers = json_object_get(fusion->tree, "headers");
    if (!headers)
        return 0;
    if (!json_is_object(headers))
        return error_set(error, STATUS_INVALID_FIELD, "headers: must be an object, include names to files");
    json_object_foreach(headers, name, file)
    {
        char *bytes, *path;
        size_t size;
        if (!json_is_string(file))
            return error_set(error, STATUS_INVALID_FIELD, "headers.%s: must be a string, the name of a file", name);
        if (read_beside(fusion->path, "headers", json_string_value(file), LIMIT_BLOB, &path, &bytes, &size, error) < 0)
            return -1;
        free(path);
        if (fusion_take_header(fusion, name, bytes, size, error) < 0)
            return -1;
    }
    json_object_del(fusion->tree, "headers");
    return 0;
}

static int load_tree(struct fusiond_fusion *fusion, struct error *error)
{
    char *bytes;
    size_t size;
    json_error_t problem;
    if (fusion_read_file(fusion->path, MAX_JSON, &bytes, &size, error) < 0)
        return -1;
    json_t *tree = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, &problem);
    free(bytes);
    if (!tree)
        return error_set(error, STATUS_INVALID_FILE, "%s:%d:%d: %s", fusion->path, problem.line, problem.column,
                         problem.text);
    if (!json_is_object(tree)) {
        json_decref(tree);
        return error_set(error, STATUS_INVALID_FILE, "%s: must hold one object", fusion->path);
    }
    json_decref(fusion->tree);
    fusion->tree = tree;
    fusion->run = json_incref(json_object_get(tree, "run"));
    json_object_del(tree, "run");
    return 0;
}

int fusiond_fusion_load(const char *path, struct fusiond_fusion **ret, struct fusiond_error *ret_error)
{
    struct error error = {0};
    struct fusiond_fusion *fusion = fusiond_fusion_create();
    if (!fusion || !(fusion->path = strdup(path))) {
        error_set(&error, STATUS_OUT_OF_MEMORY, "no memory for a fusion");
        goto fail;
    }
    if (load_tree(fusion, &error) < 0)
        goto fail;
    if (load_code(fusion, &error) < 0 || load_headers(fusion, &error) < 0 || !fusion_message(fusion, &error)) {
        error_wrap(&error, "%s", path);
        goto fail;
    }
    *ret = fusion;
    return 0;
fail:
    fusiond_fusion_destroy(fusion);
    return error_export(-1, &error, ret_error);
}
