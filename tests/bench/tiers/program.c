#include "tests/bench/tiers/program.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FILE (1 << 16)

static char *read_text(const char *folder, const char *file, struct error *error)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *in = fopen(path, "re");
    char *text = calloc(1, MAX_FILE);
    size_t size = in && text ? fread(text, 1, MAX_FILE - 1, in) : 0;
    if (size == 0) {
        error_set_errno(error, STATUS_NOT_FOUND, errno, "%s", path);
        free(text);
        text = NULL;
    }
    if (in)
        fclose(in);
    return text;
}

static size_t size_of_type(const char *type)
{
    if (strcmp(type, "float") == 0 || strcmp(type, "int") == 0)
        return 4;
    return strcmp(type, "double") == 0 ? 8 : 0;
}

int program_read(const char *folder, const char *file, struct program ret[MAX_TYPES], struct error *error)
{
    static const char first[] = "// types:";
    char types[128];
    int n = 0;
    char *text = read_text(folder, file, error);
    if (!text)
        return -1;
    if (strncmp(text, first, strlen(first)) != 0) {
        free(text);
        return error_set(error, STATUS_INVALID_FIELD, "the first line is not \"%s …\"", first);
    }
    snprintf(types, sizeof types, "%.*s", (int)strcspn(text, "\n") - (int)strlen(first), text + strlen(first));
    for (char *state, *type = strtok_r(types, " ", &state); type && n < MAX_TYPES; type = strtok_r(NULL, " ", &state)) {
        struct program *program = &ret[n++];
        snprintf(program->name, sizeof program->name, "%.*s", (int)strlen(file) - 3, file);
        snprintf(program->type, sizeof program->type, "%s", type);
        program->type_size = size_of_type(type);
        program->text = text;
        if (program->type_size == 0) {
            free(text);
            return error_set(error, STATUS_INVALID_FIELD, "type \"%s\" is none of float, double, int", type);
        }
    }
    return n;
}

void program_free(struct program *programs)
{
    free(programs[0].text);
}

static int take_image(struct nvrtc *nvrtc, void *handle, int result, struct program_image *ret, struct error *error)
{
    size_t size = 0;
    if (result != 0) {
        char log[ERROR_TEXT];
        nvrtc->log_size(handle, &size);
        char *whole = calloc(1, size + 1);
        if (whole)
            nvrtc->log(handle, whole);
        snprintf(log, sizeof log, "%s", whole ? whole : "");
        free(whole);
        return error_set(error, STATUS_COMPILE_FAILED, "%s: %.400s", nvrtc->result_name(result), log);
    }
    if (nvrtc->cubin_size(handle, &ret->size) != 0 || !(ret->bytes = malloc(ret->size)) ||
        nvrtc->cubin(handle, ret->bytes) != 0)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no image");
    return 0;
}

int program_compile(struct nvrtc *nvrtc, const struct program_setup *setup, const struct program *program,
                    const char *level, struct program_image *ret, struct error *error)
{
    char arch[64], includes[MAX_INCLUDES][1024];
    const char *options[8 + MAX_INCLUDES + MAX_OPTIONS];
    int n = 0;
    void *handle = NULL;
    *ret = (struct program_image){0};
    options[n++] = "--std=c++17";
    snprintf(arch, sizeof arch, "--gpu-architecture=%s", setup->target);
    options[n++] = arch;
    options[n++] = "-default-device";
    options[n++] = "--no-cache";
    options[n++] = level;
    for (int i = 0; i < setup->n_options; i++)
        options[n++] = setup->options[i];
    for (int i = 0; i < setup->n_includes; i++) {
        snprintf(includes[i], sizeof includes[i], "--include-path=%s", setup->includes[i]);
        options[n++] = includes[i];
    }
    char *text;
    if (asprintf(&text, "typedef %s T;\n%s", program->type, program->text) < 0)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a program");
    int result = nvrtc->create(&handle, text, program->name, 0, NULL, NULL);
    free(text);
    if (result == 0)
        result = nvrtc->compile(handle, n, options);
    int status = take_image(nvrtc, handle, result, ret, error);
    nvrtc->destroy(&handle);
    return status;
}

void program_image_free(struct program_image *image)
{
    free(image->bytes);
    *image = (struct program_image){0};
}
