/* What the front knows of fusiond-executor beside its messages: protocol number, arguments, exit codes. */
#ifndef DAEMON_EXECUTOR_EXECUTOR_H
#define DAEMON_EXECUTOR_EXECUTOR_H

/* executor_ready.protocol. Front and executor are installed together; another number means that they were not. */
#define EXECUTOR_PROTOCOL 1

/*
 * fusiond-executor --fd N --probe             tell all devices (executor_ready) and exit
 * fusiond-executor --fd N --device host|ORDINAL [--threads N] [--spin-us N]
 *     executor_ready { devices: the one }     once the device is open and, for the host device, the process shut in
 *     ◄ executor_attach + descriptor          a client's direct channel
 *     kernel.get requests ►, ◄ replies        images, as a client would ask; at most EXECUTOR_FETCHES at once
 *     executor_status ►                       when a channel was attached, and when one has ended
 *     executor_fault ►                        then it exits with EXECUTOR_EXIT_LOST
 * The end of the channel to the front ends the executor once its clients' work is drained or a second has passed.
 */
#define EXECUTOR_FETCHES 64

enum executor_exit {
    EXECUTOR_EXIT_DONE = 0,
    EXECUTOR_EXIT_USAGE = 2,     /* unknown or missing arguments */
    EXECUTOR_EXIT_CHANNEL = 3,   /* the channel to the front broke */
    EXECUTOR_EXIT_NO_DEVICE = 4, /* executor_ready.error said so */
    EXECUTOR_EXIT_MEMORY = 5,
    EXECUTOR_EXIT_ORPHAN = 6, /* the front was gone before the executor started */
    EXECUTOR_EXIT_LOST = 7,   /* the device is lost to this process */
};

#endif
