/* One call of a fusion for `fusionctl run`: sizes and scalars from its file and the command line. */
#ifndef CLIENT_FUSIONCTL_RUN_CALL_H
#define CLIENT_FUSIONCTL_RUN_CALL_H

#include "client/fusion.h"
#include "daemon/launch/arguments.h"

#define MAX_OVERRIDES 64

/* "x=8192x1024" and "eps=1e-5" from the command line. */
struct run_overrides {
    const char *tensors[MAX_OVERRIDES], *scalars[MAX_OVERRIDES];
    size_t n_tensors, n_scalars;
};

/* "x=x.npy" from the command line: the files of some tensors. */
struct run_files {
    const char *items[MAX_OVERRIDES];
    size_t n;
};

/* The file of this name; the last one wins. NULL: none. */
const char *run_files_find(const struct run_files *files, struct text name);
/* Every item must be NAME=FILE with the name of a parameter of that kind; `option` is its name for the error. */
int run_files_check(const struct run_files *files, const struct fusion *fusion, enum param_kind kind,
                    const char *option, struct error *error);

/* Owner: the verb. */
struct run_call {
    const struct fusion *message; /* the fusion's; not to be changed meanwhile */
    size_t n;
    struct argument *arguments; /* one per parameter, addresses to be filled in */
    int64_t (*sizes)[LIMIT_RANK];
    char (*scalars)[16];
    struct call call; /* with all shapes */
};

/* Settle everything. The sizes of a tensor may be expressions over the tensors before it, all scalars included. */
int run_call_init(struct fusiond_fusion *fusion, const struct run_overrides *overrides, struct run_call *ret,
                  struct error *error);
void run_call_finish(struct run_call *run);

#endif
