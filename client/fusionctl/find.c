#include "client/fusionctl/find.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "client/error.h"
#include "kernels_db/kernel_key.h"

/* The whole key of the prefix, 64 digits. */
static int find_key(struct fusiond_connection *connection, const char *prefix, char ret[KEY_HEX],
                    struct fusiond_error *ret_error)
{
    struct fusiond_list_filter filter = {.prefix = prefix, .limit = 2};
    struct fusiond_kernel_list *list;
    struct error error;
    if (fusiond_kernel_list(connection, &filter, &list, ret_error) < 0)
        return -1;
    size_t n = fusiond_kernel_list_count(list);
    int result = 0;
    if (n == 0)
        result = error_set(&error, STATUS_NOT_FOUND, "no kernel's key begins with \"%s\"", prefix);
    else if (n > 1)
        result = error_set(&error, STATUS_INVALID_FIELD, "several keys begin with \"%s\": %.16s…, %.16s…", prefix,
                           fusiond_kernel_list_at(list, 0).key, fusiond_kernel_list_at(list, 1).key);
    else
        memcpy(ret, fusiond_kernel_list_at(list, 0).key, KEY_HEX);
    fusiond_kernel_list_destroy(list);
    return error_export(result, &error, ret_error);
}

/* "/fusiond-<64 digits>.cu", as a line table calls the code of a kernel. */
static bool read_source_name(const char *name, char ret[KEY_HEX])
{
    const char *slash = strrchr(name, '/');
    const char *base = slash ? slash + 1 : name;
    char end[4] = "";
    char *digits = ret;
    return sscanf(base, "fusiond-%64[0-9a-f].%3s", digits, end) == 2 && strcmp(end, "cu") == 0;
}

int find_kernel(struct fusiond_connection *connection, const char *prefix, unsigned parts, struct fusiond_kernel **ret,
                struct fusiond_error *ret_error)
{
    char lower[KEY_HEX] = "", key[KEY_HEX], named[KEY_HEX];
    if (read_source_name(prefix, named))
        prefix = named;
    size_t size = strlen(prefix);
    struct error error;
    for (size_t i = 0; i < size; i++) {
        if (size >= KEY_HEX || !isxdigit((unsigned char)prefix[i])) {
            error_set(&error, STATUS_INVALID_FIELD, "\"%.80s\" is not the beginning of a key (hex digits, at most %d)",
                      prefix, KEY_HEX - 1);
            return error_export(-1, &error, ret_error);
        }
        lower[i] = (char)tolower((unsigned char)prefix[i]);
    }
    if (size == KEY_HEX - 1)
        return fusiond_kernel_get(connection, lower, parts, ret, ret_error);
    if (find_key(connection, lower, key, ret_error) < 0)
        return -1;
    return fusiond_kernel_get(connection, key, parts, ret, ret_error);
}
