/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot.h - what a shim must know before it can talk to its driver.
 *
 * Travels in one environment variable, HVD_BOOT_ENV, whose name starts with
 * SLURM because srun --export=NONE drops all others. It holds no secret: who
 * reads it learns where the driver listens, and nothing that lets him in.
 *
 *     1;session=HEX;port=N;addr=A,B,…;timeout=SECONDS;id=munge|fd:N|pid:PID:N|file:PATH;verbose=N
 */
#ifndef HVD_BOOT_H
#define HVD_BOOT_H

#include "lib/base/err.h"
#include "lib/net/addr.h"

#include <stddef.h>

#define HVD_BOOT_ENV       "SLURM_HVD_BOOT"
#define HVD_BOOT_MAX_ADDRS 16
#define HVD_BOOT_MAX       2048 /* length of the text, with the final NUL */
#define HVD_SESSION_LEN    32   /* hex digits */
/* The descriptor from which a shim reads the key where its parent hands one down ("fd:3"). */
#define HVD_KEY_FD 3

struct hvd_boot {
	char session[HVD_SESSION_LEN + 1];
	in_port_t port;
	struct hvd_addr addrs[HVD_BOOT_MAX_ADDRS]; /* any of them may lead to the driver */
	unsigned n_addrs;
	double timeout; /* seconds for the whole start, from the shim's own on; at most HVD_MOST_SECONDS */
	char id[256];   /* "munge", "fd:N" (of the shim), "pid:PID:N" (of the launcher) or "file:PATH" */
	int verbose;    /* 0, 1 or 2 */
	/* Where the site wants listening sockets of a launch; 0, 0: anywhere. */
	in_port_t port_lo, port_hi;
};

int hvd_boot_format(const struct hvd_boot *boot, char text[HVD_BOOT_MAX], struct hvd_err *err);
int hvd_boot_parse(const char *text, struct hvd_boot *boot, struct hvd_err *err);

#endif
