/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preamble.h - what hvd-agent on another host reads from its stdin first.
 *
 * ssh starts a command on the other host, but passes on neither the user's environment nor a secret, and neither
 * belongs on a command line. The user's command does not belong there, either: the login shell reads the command line,
 * and tcsh, fish and sh have no way of quoting in common. So the launcher writes all three to hvd-agent's stdin; the
 * input of rank 0 follows:
 *
 *     exit 122
 *     #HVDP VERSION LENGTH TEXT
 *
 * LENGTH has eight decimal digits, and counts TEXT and the end of its line. TEXT is base64 of
 *
 *     key | boot text | directory | number of variables | NAME=VALUE … | number of arguments | ARGUMENT …
 *
 * A start file of the login shell may replace it by another shell (.bashrc: exec fish), which gets this in place of
 * hvd-agent, and reads its commands from stdin. Every shell ends at the first line, and takes the second for a comment:
 * nothing of the preamble is run, or shown in a message. The exit status shows hvdrun what has happened.
 *
 * srun passes on environment, directory and command itself. If srun starts the agents and there is no munge, the
 * preamble carries the key alone: the directory is empty, and there are no variables and no arguments.
 *
 * A self-registering agent gets a preamble over its connection, with boot text and arguments alone: it has the key, which
 * must not cross the network, and runs the ranks in its own environment and directory.
 *
 * A number has four bytes, the highest first. Each text has its length in front, and no zero byte. The reader takes
 * exactly the preamble, and leaves every later byte.
 */
#ifndef HVD_PREAMBLE_H
#define HVD_PREAMBLE_H

#include "auth.h"
#include "boot.h"
#include "lib/base/deadline.h"
#include "lib/base/strv.h"

#define HVD_PREAMBLE_HEAD 26         /* bytes up to the text */
#define HVD_PREAMBLE_MAX  (16 << 20) /* bytes that the text stands for; a whole preamble is less than twice as long */
#define HVD_PREAMBLE_VARS 65536

/* Exit statuses of an agent that could not begin. The launcher turns them into messages. */
enum hvd_preamble_exit {
	HVD_PREAMBLE_UNREADABLE = 120, /* the preamble is cut off, damaged, or of another release */
	HVD_PREAMBLE_NO_DIRECTORY,     /* the launch's directory does not exist on the agent's host */
	HVD_PREAMBLE_TO_SHELL,         /* a shell has read the preamble; its first line says this number */
};

struct hvd_preamble {
	struct hvd_key key;
	char boot[HVD_BOOT_MAX]; /* the boot text (boot.h) */
	char *directory;         /* owned; the working directory: absolute, or "" for the one that the shim has */
	struct hvd_strv env;     /* NAME=VALUE; no name is empty */
	struct hvd_strv args;    /* of hvd-agent, from the word of its subcommand on; empty: its command line has all */
};

/* Write the preamble. The caller wipes and frees *bytes. HVD_E_LIMIT when it is larger than a reader accepts. */
int hvd_preamble_format(const struct hvd_preamble *p, unsigned char **bytes, size_t *n, struct hvd_err *err);

/* How many bytes follow this head? -1 with err set when it is no head of this release. */
int hvd_preamble_length(const unsigned char head[HVD_PREAMBLE_HEAD], size_t *n, struct hvd_err *err);

/* Read what follows the head, n bytes. On success the caller clears *p; after an error it is cleared. Untrusted input is
 * fine. */
int hvd_preamble_parse(const unsigned char *bytes, size_t n, struct hvd_preamble *p, struct hvd_err *err);

/* Read a whole preamble of n bytes. *p as above. Untrusted input is fine. */
int hvd_preamble_parse_whole(const unsigned char *bytes, size_t n, struct hvd_preamble *p, struct hvd_err *err);

/* Read a whole preamble from a descriptor, which may be a blocking one. *p as above. */
int hvd_preamble_read(int fd, hvd_time deadline, struct hvd_preamble *p, struct hvd_err *err);

/* Wipe the key and free the rest. */
void hvd_preamble_clear(struct hvd_preamble *p);

#endif
