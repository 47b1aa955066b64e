/* fusiond: the front. Reads what it is told, and runs the server. */
#include <sodium.h>
#include <stdio.h>

#include "daemon/config.h"
#include "daemon/server.h"

/* Exit statuses: 0 stopped in order, 1 could not start, 2 wrong use. */
int main(int argc, char **argv)
{
    static struct config config;
    enum config_action action;
    struct error error;
    if (config_read(argc, argv, &config, &action, &error) < 0) {
        fprintf(stderr, "fusiond: %s\n", error.text);
        return 2;
    }
    if (action == CONFIG_EXIT)
        return 0;
    /* Picks the fastest BLAKE2b that this processor has. */
    if (sodium_init() < 0)
        fprintf(stderr, "fusiond: libsodium is not ready; hashing is slower, ignoring\n");
    if (server_run(&config, &error) < 0) {
        fprintf(stderr, "fusiond: %s\n", error.text);
        return 1;
    }
    return 0;
}
