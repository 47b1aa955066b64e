#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/fusionctl/command.h"
#include "client/fusionctl/dump.h"
#include "client/fusionctl/dump_file.h"
#include "client/fusionctl/verbs.h"
#include "client/kernel.h"

/* A disassembler has this long, and may write this much. */
#define DISASSEMBLE_MS 60000
#define DISASSEMBLE_BYTES (256u << 20)
/* Of a file's name, its ending aside. */
#define ID_ROOM 160

static const char *const words[DUMP_PARTS] = {"code", "source", "args", "ptx", "cubin", "sass", "ptxas", "meta"};
static const char *const endings[DUMP_PARTS] = {".cu",    ".full.cu", ".args.json", ".ptx",
                                                ".cubin", ".sass",    ".ptxas.txt", ".json"};

/* One part: its bytes, or why there are none. */
struct piece {
    const void *bytes; /* NULL: absent */
    size_t size;
    char *own; /* to be freed; may be what `bytes` points to */
    char why[1024];
};

struct dump {
    struct fusiond_connection *connection;
    const struct dump_settings *settings;
    struct fusiond_kernel *kernel;
    struct fusiond_source *source; /* fetched when it is asked for */
    char id[ID_ROOM];
    json_t *files, *missing; /* of the report */
    size_t n_written;
    int result;
};

/* ---- making a part ---- */

static void say(struct piece *piece, const char *why)
{
    snprintf(piece->why, sizeof piece->why, "%s", why);
}

static void take_text(struct piece *piece, const char *text, const char *otherwise)
{
    piece->bytes = text;
    piece->size = text ? strlen(text) : 0;
    if (!text)
        say(piece, otherwise);
}

static void make_source(struct dump *dump, struct piece *ret)
{
    struct fusiond_error error;
    if (!dump->source && fusiond_kernel_source(dump->connection, dump->kernel->key, &dump->source, &error) < 0) {
        snprintf(ret->why, sizeof ret->why, "%s: %s", error.name, error.text);
        return;
    }
    take_text(ret, fusiond_source_text(dump->source), "it was stored by a daemon that did not keep it");
    if (ret->bytes && fusiond_source_changed(dump->source))
        fprintf(stderr,
                "fusionctl: %s: the preamble in its source is the daemon's present one; the kernel was compiled with "
                "another\n",
                dump->id);
}

static void make_message(const struct kernel *message, struct piece *ret)
{
    FILE *out = open_memstream(&ret->own, &ret->size);
    if (!out) {
        say(ret, "no memory for it");
        return;
    }
    message_print(&kernel_type, message, out, 2);
    fclose(out);
    ret->bytes = ret->own;
}

/* The record without the long texts. */
static void make_meta(const struct dump *dump, struct piece *ret)
{
    struct kernel meta = dump->kernel->message;
    meta.code = meta.log = (struct text){0};
    meta.image = meta.ptx = (struct bytes){0};
    meta.has_image_fd = meta.has_ptx_fd = false;
    make_message(&meta, ret);
}

/* What decides about the image beside its code. */
static void make_args(const struct dump *dump, struct piece *ret)
{
    const struct kernel *from = &dump->kernel->message;
    struct kernel args = {
        .has_key = true,
        .target = from->target,
        .image_kind = from->image_kind,
        .index_type = from->index_type,
        .args = from->args,
        .n_args = from->n_args,
        .max_registers = from->max_registers,
        .has_max_registers = from->has_max_registers,
        .block_size = from->block_size,
        .has_block_size = from->has_block_size,
        .modules = from->modules,
        .n_modules = from->n_modules,
        .headers = from->headers,
        .n_headers = from->n_headers,
        .structured = from->structured,
        .compiler = from->compiler,
        .has_build = true,
    };
    memcpy(args.key, from->key, sizeof args.key);
    memcpy(args.build, from->build, sizeof args.build);
    make_message(&args, ret);
}

static void make_image(const struct dump *dump, struct piece *ret)
{
    if (dump->kernel->message.image_kind == IMAGE_KIND_PTX) {
        say(ret, "it was compiled to PTX");
        return;
    }
    ret->bytes = fusiond_kernel_image(dump->kernel, &ret->size);
    if (!ret->bytes)
        say(ret, "the daemon did not send it");
}

static void make_ptx(const struct dump *dump, struct piece *ret)
{
    bool is_ptx = dump->kernel->message.image_kind == IMAGE_KIND_PTX;
    ret->bytes = is_ptx ? fusiond_kernel_image(dump->kernel, &ret->size) : fusiond_kernel_ptx(dump->kernel, &ret->size);
    if (!ret->bytes)
        say(ret, dump->kernel->message.image_kind == IMAGE_KIND_SHARED_OBJECT ? "code for the host device has none"
                                                                              : "the daemon did not keep it");
}

static void make_ptxas(const struct dump *dump, struct piece *ret)
{
    const char *log = fusiond_kernel_log(dump->kernel);
    if (log && strstr(log, "ptxas"))
        take_text(ret, log, "");
    else if (dump->kernel->message.image_kind == IMAGE_KIND_CUBIN)
        say(ret, "the compiler's log has none");
    else
        say(ret, "no assembler has seen it");
}

/* The cubin as a file of its own, since disassemblers take nothing else. */
static int write_temporary(const void *bytes, size_t size, char path[256])
{
    const char *folder = getenv("TMPDIR");
    if (!folder || folder[0] != '/' || strlen(folder) > 200)
        folder = "/tmp";
    snprintf(path, 256, "%s/fusionctl.XXXXXX.cubin", folder);
    int fd = mkostemps(path, 6, O_CLOEXEC);
    if (fd < 0)
        return -1;
    FILE *out = fdopen(fd, "we");
    bool good = out && fwrite(bytes, 1, size, out) == size;
    if (out)
        good = fclose(out) == 0 && good;
    else
        close(fd);
    if (!good)
        unlink(path);
    return good ? 0 : -1;
}

static void disassemble(const char *program, const char *path, struct piece *ret)
{
    struct command_output output;
    const char *slash = strrchr(program, '/');
    bool second = slash && strcmp(slash + 1, "cuobjdump") == 0;
    const char *const plain[] = {program, path, NULL}, *const with_option[] = {program, "-sass", path, NULL};
    if (command_run(second ? with_option : plain, DISASSEMBLE_MS, DISASSEMBLE_BYTES, &output) < 0) {
        snprintf(ret->why, sizeof ret->why, "%.200s failed: %.700s", program, output.said);
        return;
    }
    ret->bytes = ret->own = output.out;
    ret->size = output.size;
}

static void make_sass(const struct dump *dump, struct piece *ret)
{
    static const char *const names[] = {"nvdisasm", "cuobjdump", NULL};
    char path[256];
    if (dump->kernel->message.image_kind == IMAGE_KIND_SHARED_OBJECT) {
        say(ret, "code for the host device has none");
        return;
    }
    make_image(dump, ret);
    if (!ret->bytes)
        return;
    const void *image = ret->bytes;
    size_t size = ret->size;
    *ret = (struct piece){0};
    char *program = command_find(names);
    if (!program)
        say(ret, "there is no nvdisasm and no cuobjdump in PATH, CUDA_HOME, CUDA_PATH or /usr/local/cuda");
    else if (write_temporary(image, size, path) < 0)
        say(ret, "no temporary file for the disassembler can be written");
    else {
        disassemble(program, path, ret);
        unlink(path);
    }
    free(program);
}

static void make(struct dump *dump, enum dump_part part, struct piece *ret)
{
    switch (part) {
    case DUMP_CODE:
        take_text(ret, fusiond_kernel_code(dump->kernel), "the daemon did not keep it");
        break;
    case DUMP_SOURCE:
        make_source(dump, ret);
        break;
    case DUMP_ARGS:
        make_args(dump, ret);
        break;
    case DUMP_PTX:
        make_ptx(dump, ret);
        break;
    case DUMP_CUBIN:
        make_image(dump, ret);
        break;
    case DUMP_SASS:
        make_sass(dump, ret);
        break;
    case DUMP_PTXAS:
        make_ptxas(dump, ret);
        break;
    default:
        make_meta(dump, ret);
        break;
    }
}

/* ---- writing it ---- */

static bool is_only_part(unsigned parts)
{
    return parts && (parts & (parts - 1)) == 0;
}

/* On the standard output several parts are told apart by a line each. */
static void print_out(struct dump *dump, const char *name, const char *ending, const struct piece *piece)
{
    if (strcmp(name, "cubin") == 0 && (isatty(STDOUT_FILENO) || !is_only_part(dump->settings->parts))) {
        fprintf(stderr, "fusionctl: %s: a cubin is not text; ask for it alone, into a pipe or a folder\n", dump->id);
        dump->result = is_only_part(dump->settings->parts) ? EXIT_FAILED : dump->result;
        return;
    }
    if (!is_only_part(dump->settings->parts))
        printf("==== %s%s ====\n", dump->id, ending);
    if (fwrite(piece->bytes, 1, piece->size, stdout) != piece->size || fflush(stdout) != 0) {
        fprintf(stderr, "fusionctl: standard output: cannot be written\n");
        dump->result = EXIT_FAILED;
    }
}

static void put(struct dump *dump, const char *name, const char *ending, const struct piece *piece)
{
    char file[ID_ROOM + 16];
    char *path;
    if (strcmp(dump->settings->folder, "-") == 0) {
        print_out(dump, name, ending, piece);
        return;
    }
    snprintf(file, sizeof file, "%s%s", dump->id, ending);
    if (!dump_file(dump->settings->folder, file, piece->bytes, piece->size, dump->settings->force, &path)) {
        dump->result = EXIT_FAILED;
        return;
    }
    json_object_set_new(dump->files, name, json_string(path));
    dump->n_written++;
    free(path);
}

static void put_part(struct dump *dump, enum dump_part part)
{
    struct piece piece = {0};
    /* What the host device runs is no cubin. */
    bool native = part == DUMP_CUBIN && dump->kernel->message.image_kind == IMAGE_KIND_SHARED_OBJECT;
    make(dump, part, &piece);
    if (piece.bytes) {
        put(dump, native ? "shared_object" : words[part], native ? ".so" : endings[part], &piece);
    } else {
        fprintf(stderr, "fusionctl: %s: no %s: %s\n", dump->id, words[part], piece.why);
        json_object_set_new(dump->missing, words[part], json_string(piece.why));
        if (dump->settings->parts)
            dump->result = EXIT_FAILED;
    }
    free(piece.own);
}

static void put_launch(struct dump *dump, const json_t *launch)
{
    struct piece piece = {.own = json_dumps(launch, JSON_INDENT(2) | JSON_PRESERVE_ORDER)};
    if (!piece.own)
        return;
    piece.bytes = piece.own;
    piece.size = strlen(piece.own);
    put(dump, "launch", ".launch.json", &piece);
    free(piece.own);
}

/* ---- the kernel ---- */

/* What the generator of the kernel called it; "" when that is no more than label and key. */
static const char *own_title(const struct fusiond_kernel *kernel)
{
    enum { SHORT = 8 };
    struct text title = kernel->message.title;
    if (!title.at || (title.size > SHORT && memcmp(title.at + title.size - SHORT, kernel->key, SHORT) == 0))
        return "";
    return title.at;
}

/* Title, label, or first entry: the first that there is; and the beginning of the key. */
static void name_kernel(const struct fusiond_kernel *kernel, char ret[ID_ROOM])
{
    const char *label = own_title(kernel);
    if (!*label)
        label = fusiond_kernel_label(kernel);
    if (!*label && kernel->message.n_entries)
        label = kernel->message.entries[0].name.at;
    dump_plain(label, ret, ID_ROOM - 16);
    size_t used = strlen(ret);
    snprintf(ret + used, ID_ROOM - used, "%s%.12s", used ? "." : "", kernel->key);
}

static void report_to(json_t *report, const struct dump *dump)
{
    if (!report)
        return;
    json_t *row = json_object();
    json_object_set_new(row, "key", json_string(dump->kernel->key));
    json_object_set_new(row, "id", json_string(dump->id));
    json_object_set(row, "files", dump->files);
    json_object_set(row, "missing", dump->missing);
    json_array_append_new(report, row);
}

int dump_kernel(struct fusiond_connection *connection, const char *key, const struct dump_settings *settings,
                const json_t *launch, json_t *report)
{
    struct dump dump = {.connection = connection, .settings = settings};
    struct fusiond_error error;
    const unsigned everything = FUSIOND_IMAGE | FUSIOND_PTX | FUSIOND_LOG | FUSIOND_CODE | FUSIOND_DETAILS;
    if (strcmp(settings->folder, "-") != 0 && !dump_folder(settings->folder))
        return EXIT_FAILED;
    if (fusiond_kernel_get(connection, key, everything, &dump.kernel, &error) < 0)
        return fail(&error);
    name_kernel(dump.kernel, dump.id);
    dump.files = json_object();
    dump.missing = json_object();
    for (enum dump_part part = 0; part < DUMP_PARTS; part++) {
        if (!settings->parts || (settings->parts & 1u << part))
            put_part(&dump, part);
    }
    if (launch)
        put_launch(&dump, launch);
    report_to(report, &dump);
    if (!report && strcmp(settings->folder, "-") != 0)
        printf("%s: %zu files in %s\n", dump.id, dump.n_written, settings->folder);
    json_decref(dump.files);
    json_decref(dump.missing);
    fusiond_source_destroy(dump.source);
    fusiond_kernel_destroy(dump.kernel);
    return dump.result;
}

/* ---- options ---- */

bool dump_choose(const char *list, struct dump_settings *ret)
{
    unsigned parts = 0;
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        size_t size = strcspn(at, ",");
        unsigned found = 0;
        for (int i = 0; i < DUMP_PARTS; i++) {
            if (strlen(words[i]) == size && memcmp(words[i], at, size) == 0)
                found = 1u << i;
        }
        if (!found) {
            fprintf(stderr, "fusionctl: --what: \"%.*s\" is none of " DUMP_WORDS "\n", (int)size, at);
            return false;
        }
        parts |= found;
    }
    ret->parts = parts;
    return true;
}

bool dump_option(struct dump_settings *settings, int option)
{
    switch (option) {
    case OPTION_DUMP:
        settings->folder = optarg;
        return true;
    case OPTION_WHAT:
        return dump_choose(optarg, settings);
    case OPTION_FORCE:
        settings->force = true;
        return true;
    default:
        return false;
    }
}
