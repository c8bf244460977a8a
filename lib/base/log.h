/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.h - messages for people, on standard error.
 *
 * A log is a small value owned by main() and handed down by pointer; there is
 * no global one. Whatever stands in a message is shown as printable.h has it,
 * and lines behind the first are indented, so that nothing from outside can look
 * like a message of its own. Each message is written with a single write(2), so messages
 * of several processes that share a descriptor do not mix within a line.
 */
#ifndef HVD_LOG_H
#define HVD_LOG_H

#include "err.h"

enum hvd_log_level {
	HVD_LOG_ERROR = 0,
	HVD_LOG_WARN,
	HVD_LOG_INFO,    /* shown by default: things the user should know */
	HVD_LOG_VERBOSE, /* --verbose: why a choice was made */
	HVD_LOG_DEBUG,   /* --verbose twice: every step, and the time in each line */
};

struct hvd_log {
	const char *prog; /* prefix of each line; not owned */
	enum hvd_log_level level;
	int fd; /* usually 2 */
};

/* A log for `prog` at `level`, on standard error. */
struct hvd_log hvd_log_make(const char *prog, enum hvd_log_level level);

/* Write one message. `log` may be NULL (nothing is written). Keeps errno. */
void hvd_log(const struct hvd_log *log, enum hvd_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Write an error value: "prog: error: [host: ]msg" and, if there is one, the hint on a line of its own. */
void hvd_log_err(const struct hvd_log *log, const struct hvd_err *err);

#define hvd_error(log, ...)   hvd_log(log, HVD_LOG_ERROR, __VA_ARGS__)
#define hvd_warn(log, ...)    hvd_log(log, HVD_LOG_WARN, __VA_ARGS__)
#define hvd_info(log, ...)    hvd_log(log, HVD_LOG_INFO, __VA_ARGS__)
#define hvd_verbose(log, ...) hvd_log(log, HVD_LOG_VERBOSE, __VA_ARGS__)
#define hvd_debug(log, ...)   hvd_log(log, HVD_LOG_DEBUG, __VA_ARGS__)

#endif
