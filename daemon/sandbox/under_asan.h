/* Whether this is an AddressSanitizer build: some of the sandbox cannot be had with it. */
#ifndef DAEMON_SANDBOX_UNDER_ASAN_H
#define DAEMON_SANDBOX_UNDER_ASAN_H

#if defined(__SANITIZE_ADDRESS__)
#define UNDER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UNDER_ASAN 1
#endif
#endif
#ifndef UNDER_ASAN
#define UNDER_ASAN 0
#endif

#endif
