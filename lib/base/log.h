/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.h - messages to people, on standard error.
 *
 * main() makes a log and hands it down by pointer; there is no global log. Control characters of a message are escaped
 * (printable.h), and all of its lines but the first are indented, so text from outside cannot imitate a message. One
 * write(2) writes the whole message, so that messages of processes that share a descriptor do not mix.
 */
#ifndef HVD_LOG_H
#define HVD_LOG_H

#include "err.h"

enum hvd_log_level {
	HVD_LOG_ERROR = 0,
	HVD_LOG_WARN,
	HVD_LOG_INFO,    /* the default: what every user should know */
	HVD_LOG_VERBOSE, /* --verbose: also why something was chosen */
	HVD_LOG_DEBUG,   /* --verbose twice: also every step; each message has the time in front */
};

struct hvd_log {
	const char *prog;         /* prefix of each line; not owned */
	const char *of;           /* in front of each message: "trainer: "; NULL = nothing. Not owned */
	enum hvd_log_level level; /* messages above this level are not written */
	int fd;                   /* usually 2 */
	/* Unless NULL it gets the messages, printable and without the prefix, in place of fd. */
	void (*sink)(enum hvd_log_level level, const char *text, void *arg);
	void *arg;
};

/* A log for `prog` at `level`, on standard error. */
struct hvd_log hvd_log_make(const char *prog, enum hvd_log_level level);

/* Write one message. Writes nothing when `log` is NULL. Keeps errno. */
void hvd_log(const struct hvd_log *log, enum hvd_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The same for a text of any length, which hvd_log() would cut at some kilobytes. */
void hvd_log_text(const struct hvd_log *log, enum hvd_log_level level, const char *text);

/* Write an error as "prog: error: [host: ]msg", and its hint, if it has one, as a second message. */
void hvd_log_err(const struct hvd_log *log, const struct hvd_err *err);

#define hvd_error(log, ...)   hvd_log(log, HVD_LOG_ERROR, __VA_ARGS__)
#define hvd_warn(log, ...)    hvd_log(log, HVD_LOG_WARN, __VA_ARGS__)
#define hvd_info(log, ...)    hvd_log(log, HVD_LOG_INFO, __VA_ARGS__)
#define hvd_verbose(log, ...) hvd_log(log, HVD_LOG_VERBOSE, __VA_ARGS__)
#define hvd_debug(log, ...)   hvd_log(log, HVD_LOG_DEBUG, __VA_ARGS__)

#endif
