#include "proto/socket_path.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int socket_path_default(char ret[SOCKET_PATH])
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    int size;
    if (runtime && runtime[0] == '/')
        size = snprintf(ret, SOCKET_PATH, "%s/fusiond/fusiond.sock", runtime);
    else if (geteuid() == 0)
        size = snprintf(ret, SOCKET_PATH, "%s", SOCKET_PATH_SYSTEM);
    else
        size = snprintf(ret, SOCKET_PATH, "/tmp/fusiond-%u/fusiond.sock", geteuid());
    return size < SOCKET_PATH ? 0 : -1;
}
