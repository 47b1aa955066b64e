/* Invariants that are always checked: a broken one ends the daemon with a sentence rather than with wrong bytes. */
#ifndef DAEMON_BASE_REQUIRE_H
#define DAEMON_BASE_REQUIRE_H

#define require(condition) ((condition) ? (void)0 : require_failed(#condition, __FILE__, __LINE__))

_Noreturn void require_failed(const char *condition, const char *file, int line);

#endif
