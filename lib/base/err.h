/* SPDX-License-Identifier: Apache-2.0 */
/*
 * err.h - the error value that travels beside a return code.
 *
 * Library code neither prints nor exits: it fills in a struct hvd_err and returns -1 or NULL, and the caller decides
 * what follows. An error says what failed (msg), on which host (host; empty for this host, or where the host does not
 * matter), and what the user can do about it (hint; may be empty). Texts may quote input from outside: they are stored
 * with control characters escaped (printable.h), and cut to the size of the field.
 *
 * Every function here accepts NULL for `err` and then only returns its value.
 */
#ifndef HVD_ERR_H
#define HVD_ERR_H

enum hvd_errc {
	HVD_OK = 0,
	HVD_E_USAGE,   /* the user's input is wrong; the program ends with status 2 */
	HVD_E_SYS,     /* a system call or a library failed */
	HVD_E_TIMEOUT, /* a deadline passed */
	HVD_E_PROTO,   /* a peer sent something malformed */
	HVD_E_AUTH,    /* a peer could not prove its identity */
	HVD_E_LIMIT,   /* a limit on size, count or rate was reached */
	HVD_E_NET,     /* the network does not connect what the job needs */
	HVD_E_NOENT,   /* something that was looked for does not exist */
	HVD_E_FAILED,  /* a process of the job failed */
};

struct hvd_err {
	enum hvd_errc code;
	char host[256];
	char msg[1024];
	char hint[512];
};

/* Set code and message, and clear host and hint. Always returns -1, so a function can end with
 * `return hvd_err_set(err, …)`. */
int hvd_err_set(struct hvd_err *err, enum hvd_errc code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* As hvd_err_set() with HVD_E_SYS; appends ": " and the text of errno. Keeps errno. */
int hvd_err_sys(struct hvd_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Name the host of an error that is set already; NULL clears the name. Always returns -1. */
int hvd_err_host(struct hvd_err *err, const char *host);

/* Say what the user can do about an error that is set already. Always returns -1. */
int hvd_err_hint(struct hvd_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Make the hint the end of the message, for those who get only that. Always returns -1. */
int hvd_err_join(struct hvd_err *err);

/* Put the text and ": " in front of the message; code, host and hint stay. Always returns -1. */
int hvd_err_prefix(struct hvd_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The exit status of a program that ends with this error: 2 for HVD_E_USAGE, else 1. */
int hvd_err_status(const struct hvd_err *err);

#endif
