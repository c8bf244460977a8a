/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preamble.h - what a shim on another host reads from its stdin before anything else.
 *
 * ssh brings a command there, but neither the user's environment nor a secret,
 * which have no business on a command line either. So they come first on the
 * shim's stdin; what follows is rank 0's:
 *
 *     "HVDP" | version, one byte | three zero bytes | length of what follows | key | boot text | directory |
 *     number of variables | NAME=VALUE …
 *
 * Where srun starts the shims it brings environment and directory, and the
 * preamble has neither: it carries the key where there is no munge.
 *
 * Numbers have four bytes, the highest first; each text has its length in
 * front. The reader takes exactly the preamble and not a byte more.
 */
#ifndef HVD_PREAMBLE_H
#define HVD_PREAMBLE_H

#include "auth.h"
#include "boot.h"
#include "lib/base/deadline.h"
#include "lib/base/strv.h"

#define HVD_PREAMBLE_HEAD 12
#define HVD_PREAMBLE_MAX  (16 << 20) /* bytes after the head */
#define HVD_PREAMBLE_VARS 65536

/* Exit statuses of a shim that could not begin; its launcher says what they mean. */
enum hvd_preamble_exit {
	HVD_PREAMBLE_UNREADABLE = 120, /* cut off, damaged, or of another release */
	HVD_PREAMBLE_NO_DIRECTORY,     /* the launch's directory is not here */
};

struct hvd_preamble {
	struct hvd_key key;
	char boot[HVD_BOOT_MAX]; /* text, see boot.h */
	char *directory;         /* absolute, or "": leave it; owned */
	struct hvd_strv env;     /* NAME=VALUE, the names not empty */
};

/* Write it down: *bytes is the caller's to wipe and free. -1 when it is larger than a reader accepts. */
int hvd_preamble_format(const struct hvd_preamble *p, unsigned char **bytes, size_t *n, struct hvd_err *err);

/* How much follows this head? -1: it is none. */
int hvd_preamble_length(const unsigned char head[HVD_PREAMBLE_HEAD], size_t *n, struct hvd_err *err);

/* Read what follows the head. On error *p holds nothing to clear. */
int hvd_preamble_parse(const unsigned char *bytes, size_t n, struct hvd_preamble *p, struct hvd_err *err);

/* Both, from a descriptor that may block. On error *p holds nothing to clear. */
int hvd_preamble_read(int fd, hvd_time deadline, struct hvd_preamble *p, struct hvd_err *err);

/* Wipe the key, free the rest. */
void hvd_preamble_clear(struct hvd_preamble *p);

#endif
