/* SPDX-License-Identifier: Apache-2.0 */
/*
 * key.h - the secret key of a launch: kept behind a descriptor, read from a descriptor or a file.
 *
 * Needs nothing but libc: the plugin uses it in Slurm's own processes. lib/protocol/auth.h describes what a key proves.
 */
#ifndef HVD_KEY_H
#define HVD_KEY_H

#include "err.h"

#define HVD_KEY_LEN 32 /* bytes */

struct hvd_key {
	unsigned char b[HVD_KEY_LEN];
};

/* Keep the key in memory behind a descriptor, of mode 0600 and close-on-exec. hvd_key_read_fd() can read it any number
 * of times, in other processes too. Returns the descriptor, which the caller closes; -1 with err set. */
int hvd_key_memfd(const struct hvd_key *key, struct hvd_err *err);

/* Read a key of 32 raw bytes from a descriptor. A memfd can be read any number of times, a pipe once. */
int hvd_key_read_fd(int fd, struct hvd_key *key, struct hvd_err *err);

/* Read a key of 64 hexadecimal digits or 32 raw bytes from a file, which must be an ordinary file that belongs to this
 * user and is closed to group and others. Both functions leave an undefined key after an error. */
int hvd_key_read_file(const char *path, struct hvd_key *key, struct hvd_err *err);

/* Write a new, random key to a new file, of mode 0600. -1 with err set, also if the file exists. */
int hvd_key_make_file(const char *path, struct hvd_err *err);

#endif
