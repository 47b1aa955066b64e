#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/fusionctl/find.h"
#include "client/fusionctl/verbs.h"

/* A part that can be fetched. */
struct wanted {
    const char *name;
    unsigned part;
};

static const struct wanted wanted[] = {
    {"cubin", FUSIOND_IMAGE},
    {"ptx", FUSIOND_PTX},
    {"source", FUSIOND_CODE},
    {"log", FUSIOND_LOG},
};

/* The bytes of the part; NULL when the kernel has none. */
static const void *bytes_of(const struct fusiond_kernel *kernel, const struct wanted *what, size_t *ret_size)
{
    const char *text;
    switch (what->part) {
    case FUSIOND_IMAGE:
        return fusiond_kernel_image(kernel, ret_size);
    case FUSIOND_PTX:
        return fusiond_kernel_ptx(kernel, ret_size);
    case FUSIOND_CODE:
        text = fusiond_kernel_code(kernel);
        break;
    default:
        text = fusiond_kernel_log(kernel);
        break;
    }
    *ret_size = text ? strlen(text) : 0;
    return text;
}

/* Write to the file, or to the standard output for NULL. A file that could not be written whole is removed. */
static int write_out(const char *path, const void *bytes, size_t size)
{
    FILE *out = path ? fopen(path, "we") : stdout;
    if (!out) {
        fprintf(stderr, "fusionctl: %s: %s\n", path, strerror(errno));
        return EXIT_FAILED;
    }
    bool good = fwrite(bytes, 1, size, out) == size && fflush(out) == 0;
    int number = errno;
    if (path)
        good = fclose(out) == 0 && good;
    if (good)
        return 0;
    fprintf(stderr, "fusionctl: %s: %s\n", path ? path : "standard output", strerror(number));
    if (path)
        unlink(path);
    return EXIT_FAILED;
}

static int get(struct fusiond_connection *connection, const char *prefix, const struct wanted *what, const char *path)
{
    struct fusiond_kernel *kernel;
    struct fusiond_error error;
    size_t size;
    int result = EXIT_FAILED;
    if (find_kernel(connection, prefix, what->part, &kernel, &error) < 0)
        return fail(&error);
    const void *bytes = bytes_of(kernel, what, &size);
    if (!bytes)
        fprintf(stderr, "fusionctl: kernel %.12s has no %s\n", fusiond_kernel_key(kernel), what->name);
    else if (what->part == FUSIOND_IMAGE && strcmp(fusiond_kernel_image_kind(kernel), "cubin") != 0)
        fprintf(stderr, "fusionctl: kernel %.12s has no cubin, it was compiled to PTX; use --ptx\n",
                fusiond_kernel_key(kernel));
    else if (!path && what->part == FUSIOND_IMAGE && isatty(STDOUT_FILENO))
        fputs("fusionctl: a cubin does not belong on a terminal; use -o FILE\n", stderr);
    else
        result = write_out(path, bytes, size);
    fusiond_kernel_destroy(kernel);
    return result;
}

static int run(int argc, char **argv, struct common *common)
{
    static const struct option options[] = {{"cubin", no_argument, NULL, OPTION_VERB},
                                            {"ptx", no_argument, NULL, OPTION_VERB + 1},
                                            {"source", no_argument, NULL, OPTION_VERB + 2},
                                            {"log", no_argument, NULL, OPTION_VERB + 3},
                                            {"output", required_argument, NULL, 'o'},
                                            COMMON_OPTIONS,
                                            {0}};
    const struct wanted *what = NULL;
    const char *path = NULL;
    int option, result = 0;
    while ((option = getopt_long(argc, argv, "o:", options, NULL)) != -1) {
        if (common_take(common, option))
            continue;
        if (option == 'o') {
            path = optarg;
        } else if (option >= OPTION_VERB) {
            if (what)
                return usage_error(&verb_get, "one of --cubin, --ptx, --source and --log at a time");
            what = &wanted[option - OPTION_VERB];
        } else {
            return usage_error(&verb_get, NULL);
        }
    }
    if (!common_check(&verb_get, common, argc - optind, 1, 1, &result))
        return result;
    struct fusiond_connection *connection = connect_daemon(common, &result);
    if (!connection)
        return result;
    result = get(connection, argv[optind], what ? what : &wanted[0], path);
    fusiond_close(connection);
    return result;
}

const struct verb verb_get = {
    .name = "get",
    .summary = "write a kernel's image, PTX, source or log",
    .help = "usage: fusionctl get KEY [--cubin | --ptx | --source | --log] [-o FILE]\n\n"
            "KEY is a kernel's key or the beginning of one, or what a line table calls its code (/fusiond-KEY.cu).\n\n"
            "      --cubin           the image (default)\n"
            "      --ptx             the PTX\n"
            "      --source          the code that the client sent\n"
            "      --log             what the compiler said\n"
            "  -o, --output FILE     write there instead of the standard output\n" COMMON_HELP,
    .run = run,
};
