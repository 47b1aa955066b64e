/* What threads of a block wait for together: the part of struct fusiond_host_runtime that meeting.c implements. */
#ifndef DAEMON_EXECUTOR_HOST_MEETING_H
#define DAEMON_EXECUTOR_HOST_MEETING_H

void meeting_block_sync(unsigned barrier, unsigned threads);
unsigned long long meeting_block_vote(int predicate);
void meeting_warp_sync(unsigned mask);
unsigned long long meeting_warp_shuffle(unsigned mask, unsigned long long value, unsigned source);
unsigned meeting_warp_ballot(unsigned mask, int predicate);
unsigned meeting_warp_gather(unsigned mask, unsigned long long value, unsigned long long values[32]);
unsigned meeting_warp_converged(unsigned long long site);

#endif
