#include "daemon/compile/walls.h"

int walls_admit(enum sandbox grade, uid_t client, uid_t own, struct error *error)
{
    if (grade != SANDBOX_NONE || client == own)
        return 0;
    return error_set(
        error, STATUS_FORBIDDEN,
        "compiler workers are not shut in on this machine (it has neither Landlock nor seccomp), so only the "
        "daemon's own user, uid %u, may compile; the client is uid %u",
        own, client);
}
