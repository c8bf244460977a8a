/* SPDX-License-Identifier: Apache-2.0 */
/*
 * err.h - the error value that travels beside a return code.
 *
 * Library code never prints and never exits: it fills a struct hvd_err and
 * returns -1 (or NULL). The caller decides what to do with it. Every function
 * that takes a `struct hvd_err *` accepts NULL and then only returns the code.
 *
 * What is put into an error may come from anywhere: it is kept as a terminal may show it (printable.h).
 *
 * An error says three things: what failed (msg), on which host (host, empty
 * when it is this one or when it does not matter), and what to do next (hint).
 */
#ifndef HVD_ERR_H
#define HVD_ERR_H

enum hvd_errc {
	HVD_OK = 0,
	HVD_E_USAGE,   /* the user's input is wrong: exit status 2 */
	HVD_E_SYS,     /* a system call or a library failed */
	HVD_E_TIMEOUT, /* a deadline passed */
	HVD_E_PROTO,   /* a peer sent something malformed */
	HVD_E_AUTH,    /* a peer could not prove who it is */
	HVD_E_LIMIT,   /* a size, count or rate limit was met */
	HVD_E_NET,     /* the network does not let the job run */
	HVD_E_NOENT,   /* something that was looked for is not there */
	HVD_E_FAILED,  /* a process of the job failed */
};

struct hvd_err {
	enum hvd_errc code;
	char host[256];
	char msg[1024];
	char hint[512];
};

/* Fill in code and message, clear host and hint. Always returns -1, so that
 * `return hvd_err_set(err, ...)` is the usual way out. */
int hvd_err_set(struct hvd_err *err, enum hvd_errc code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* As hvd_err_set with HVD_E_SYS; appends ": " and the text of errno. */
int hvd_err_sys(struct hvd_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Name the host that an already set error belongs to. Always returns -1. */
int hvd_err_host(struct hvd_err *err, const char *host);

/* Say what to do about an already set error. Always returns -1. */
int hvd_err_hint(struct hvd_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Put "text: " in front of the message, keeping code, host and hint. Always returns -1. */
int hvd_err_prefix(struct hvd_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The exit status of a program that ends with this error: 2 for bad input, else 1. */
int hvd_err_status(const struct hvd_err *err);

#endif
