/* What the files of the fake CUDA driver share. */
#ifndef TESTS_SUPPORT_FAKE_CUDA_FAKE_CUDA_H
#define TESTS_SUPPORT_FAKE_CUDA_FAKE_CUDA_H

#define EXPORT __attribute__((visibility("default")))

/* The number that the environment wants from this call; 0: success. */
int fake_cuda_scripted(const char *call);

#endif
