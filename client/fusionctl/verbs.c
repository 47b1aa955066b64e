#include "client/fusionctl/verbs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

bool common_take(struct common *common, int option)
{
    switch (option) {
    case OPTION_SOCKET:
        common->socket = optarg;
        return true;
    case OPTION_JSON:
        common->json = true;
        return true;
    case OPTION_HELP:
        common->help = true;
        return true;
    default:
        return false;
    }
}

int usage_error(const struct verb *verb, const char *text)
{
    if (text)
        fprintf(stderr, "fusionctl %s: %s\n", verb->name, text);
    fprintf(stderr, "See `fusionctl %s --help`.\n", verb->name);
    return EXIT_USAGE;
}

bool common_check(const struct verb *verb, const struct common *common, int n_arguments, int min, int max,
                  int *ret_exit)
{
    if (common->help) {
        fputs(verb->help, stdout);
        *ret_exit = 0;
        return false;
    }
    if (n_arguments < min || n_arguments > max) {
        *ret_exit = usage_error(verb, n_arguments < min ? "an argument is missing" : "too many arguments");
        return false;
    }
    return true;
}

int fail(const struct fusiond_error *error)
{
    fprintf(stderr, "fusionctl: %s: %s\n", error->name, error->text);
    switch (error->code) {
    case FUSIOND_UNREACHABLE:
    case FUSIOND_DISCONNECTED:
        return EXIT_UNREACHABLE;
    case FUSIOND_NO_DRIVER:
    case FUSIOND_NO_DEVICE:
        return EXIT_NO_DEVICE;
    default:
        return EXIT_FAILED;
    }
}

struct fusiond_connection *connect_daemon(const struct common *common, int *ret_exit)
{
    struct fusiond_connection *connection;
    struct fusiond_error error;
    if (fusiond_connect(common->socket, NULL, &connection, &error) < 0) {
        *ret_exit = fail(&error);
        return NULL;
    }
    return connection;
}

bool parse_number(const char *option, const char *text, long long min, long long max, long long *ret)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < min || value > max) {
        fprintf(stderr, "fusionctl: %s: \"%s\" is not a number from %lld to %lld\n", option, text, min, max);
        return false;
    }
    *ret = value;
    return true;
}
