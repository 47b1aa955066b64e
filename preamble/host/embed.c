/*
 * Writes the host texts as a C file, at build time: embed-host OUTPUT FILE…
 * A text's include name is "fusiond/host/" and its file's name; files of the folder `toolkit` have their bare names.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *read_text(const char *path, size_t *ret_size)
{
    FILE *file = fopen(path, "rbe");
    if (!file || fseek(file, 0, SEEK_END) != 0) {
        fprintf(stderr, "embed-host: %s: %s\n", path, strerror(errno));
        exit(1);
    }
    long size = ftell(file);
    rewind(file);
    char *text = malloc((size_t)size + 1);
    if (!text || fread(text, 1, (size_t)size, file) != (size_t)size || memchr(text, 0, (size_t)size)) {
        fprintf(stderr, "embed-host: %s: cannot read %ld bytes of text\n", path, size);
        exit(1);
    }
    fclose(file);
    text[size] = '\0';
    *ret_size = (size_t)size;
    return text;
}

static void write_string(FILE *out, const char *text)
{
    fputs("    \"", out);
    for (const char *c = text; *c; c++) {
        if (*c == '\n')
            fputs(c[1] ? "\\n\"\n    \"" : "\\n", out);
        else if (*c == '"' || *c == '\\')
            fprintf(out, "\\%c", *c);
        else if ((unsigned char)*c < ' ' || (unsigned char)*c >= 127 || *c == '?')
            fprintf(out, "\\%03o", (unsigned char)*c);
        else
            fputc(*c, out);
    }
    fputs("\"", out);
}

int main(int argc, char **argv)
{
    FILE *out = argc > 2 ? fopen(argv[1], "we") : NULL;
    if (!out) {
        fprintf(stderr, "usage: embed-host OUTPUT FILE...\n");
        return 2;
    }
    fputs("#include \"preamble/host/host.h\"\n\nstruct host_text host_texts_embedded[] = {\n", out);
    for (int i = 2; i < argc; i++) {
        size_t size;
        char *text = read_text(argv[i], &size);
        const char *slash = strrchr(argv[i], '/');
        const char *folder = strstr(argv[i], "/toolkit/") ? "" : "fusiond/host/";
        fprintf(out, "    {\"%s%s\",\n", folder, slash ? slash + 1 : argv[i]);
        write_string(out, text);
        fprintf(out, ",\n    %zu, {0}},\n", size);
        free(text);
    }
    fprintf(out, "};\nconst size_t host_text_count = %d;\n", argc - 2);
    return fclose(out) == 0 ? 0 : 1;
}
