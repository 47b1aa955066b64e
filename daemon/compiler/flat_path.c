#include "daemon/compiler/flat_path.h"

#include <string.h>

bool flat_path(const char *folder, const char *path, char ret[PATH_MAX])
{
    size_t size = 0;
    const char *parts[] = {path[0] == '/' ? "" : folder, path};
    for (int i = 0; i < 2; i++) {
        for (const char *at = parts[i]; *at;) {
            size_t length = strcspn(at, "/");
            if (length == 2 && at[0] == '.' && at[1] == '.') {
                while (size > 0 && ret[--size] != '/')
                    ;
            } else if (length > 0 && !(length == 1 && at[0] == '.')) {
                if (size + length + 2 > PATH_MAX)
                    return false;
                ret[size++] = '/';
                memcpy(ret + size, at, length);
                size += length;
            }
            at += length;
            at += *at == '/';
        }
    }
    ret[size] = '\0';
    return true;
}

bool flat_path_is_below(const char *path, const char *folder, size_t size)
{
    return strncmp(path, folder, size) == 0 && (path[size] == '/' || path[size] == '\0');
}
