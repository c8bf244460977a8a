/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot.h - the boot text: what a rank shim must know before it can talk to its driver.
 *
 * The text travels in one environment variable, HVD_BOOT_ENV. The variable's name starts with SLURM because srun
 * --export=NONE removes all other variables. Knowing the text admits nobody to the launch. But it names the session, which
 * other users must not learn, or they could take the names of the agents' sockets (agent/agent_socket.h); so it is on no
 * command line.
 *
 *   2;session=HEX;port=N;range=LO-HI;ports=N+M;store=N;role_ports=N;worlds=N;relays=N;network=1;stderr=1;spares=1;timeout=SECONDS;id=ID;verbose=N;addr=A,B,…
 *
 * 2 is the version. ID is munge, fd:N, pid:PID:N or file:PATH. Fields may come in any order, and unknown fields are
 * ignored; "range", "ports", "store", "role_ports", "worlds" (1), "relays", "network", "spares" and "stderr" may be left out. What an
 * agent must know later comes with the plan (agent_settings.h).
 *
 * Uses nothing but libc: the SPANK plugin links it.
 */
#ifndef HVD_BOOT_H
#define HVD_BOOT_H

#include "lib/base/err.h"
#include "lib/base/size.h"
#include "lib/net/addr.h"

#include <stdbool.h>
#include <stddef.h>

#define HVD_BOOT_ENV        "SLURM_HVD_BOOT"
#define HVD_BOOT_MAX_ADDRS  16
#define HVD_BOOT_MAX_PORTS  (8 * HVD_MAX_WORLDS) /* that are reserved for one rank of each world */
#define HVD_BOOT_MAX_RELAYS 4096
#define HVD_MAX_ROLE_PORTS  4096 /* that a host reserves for its ranks of all roles */
#define HVD_BOOT_MAX        2048 /* bytes of the text, its zero byte included */
#define HVD_SESSION_LEN     32   /* hex digits */
/* A parent that hands the key down ("fd:3") gives the key to its child as this descriptor. */
#define HVD_KEY_FD 3

struct hvd_boot {
	char session[HVD_SESSION_LEN + 1];
	in_port_t port;
	struct hvd_addr addrs[HVD_BOOT_MAX_ADDRS]; /* the driver's host; some of them may be unreachable from here */
	unsigned n_addrs;
	double timeout; /* seconds that the start may take, counted from the shim's start; at most HVD_MOST_SECONDS */
	/* How a shim proves that it belongs to the launch: with "munge", or with the key. The key is in the shim's
	 * descriptor N ("fd:N"), in descriptor N of the launcher's process PID ("pid:PID:N"), or in a file
	 * ("file:PATH"). */
	char id[256];
	int verbose; /* 0, 1 or 2 */
	/* How many ports a host reserves (lib/net/reserve.h): `ports` if it has a rank 0, or may get it, and `rank_ports`
	 * for each of its ranks. */
	unsigned ports, rank_ports;
	unsigned
		store_ports; /* so many of `ports`, the first, are for PyTorch's stores, whose servers set SO_REUSEADDR only */
	unsigned role_ports; /* so many others that a host reserves for the programs of its ranks (--ports of roles) */
	unsigned worlds;     /* how many the launch has: a host has a relay of the rendezvous for each */
	unsigned relays;     /* relays that one parent has at most */
	bool network;        /* the relay of rank 0's host may be opened to ranks of the job's other hosts */
	/* The job has more hosts than it needs. So a shim that does not reach the driver ends with status 0: its host
	 * may be one that was left out. */
	bool spares;
	bool keeps_stderr; /* the last lines of each rank's standard error are kept: it must be read */
	/* The range of ports in which the site wants a launch to listen; 0 and 0: any port. */
	in_port_t port_lo, port_hi;
};

/* Write the text. HVD_E_USAGE for an id with a semicolon, HVD_E_LIMIT when the addresses do not fit. */
int hvd_boot_format(const struct hvd_boot *boot, char text[HVD_BOOT_MAX], struct hvd_err *err);
/* Read the text. After an error *boot may be filled in part. Untrusted input is fine. */
int hvd_boot_parse(const char *text, struct hvd_boot *boot, struct hvd_err *err);
/* Add the addresses of a list with commas to those of the boot text; `list` is cut into pieces. -1 if there are none or
 * too many, or one is no address. Untrusted input is fine. */
int hvd_boot_parse_addrs(char *list, struct hvd_boot *boot);

#endif
