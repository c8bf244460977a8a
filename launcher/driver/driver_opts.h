/* SPDX-License-Identifier: Apache-2.0 */
/*
 * driver_opts.h - what the one that starts a driver asks of it; see settings.h for where it comes from.
 */
#ifndef HVD_DRIVER_OPTS_H
#define HVD_DRIVER_OPTS_H

#include "lib/base/strv.h"
#include "start_mode.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

enum hvd_where {
	HVD_WHERE_AUTO,   /* here when this host belongs to the job, else on its first host */
	HVD_WHERE_LAUNCH, /* here */
	HVD_WHERE_BATCH,  /* on the first host */
};

struct hvd_driver_opts {
	uint32_t hosts, ranks;      /* 0: the first registration decides */
	in_port_t port_lo, port_hi; /* 0: any */
	bool loopback;              /* all ranks are on this machine: listen on 127.0.0.1 only */
	enum hvd_start_mode mode;
	double start_timeout; /* seconds */
	enum hvd_where where;
	bool mpi;              /* the workers' controller is MPI */
	bool progress;         /* say what is awaited when the start takes long */
	struct hvd_strv nics;  /* empty: find them */
	struct hvd_strv env;   /* NAME=VALUE for every rank */
	struct hvd_strv names; /* the hosts' names, for messages; may be empty */
	const char *trace;     /* file for the launch trace; NULL = none */
	/* X: tell every rank, whatever its framework, where it meets the others (X_ADDR, X_PORT) and who it is (X_RANK,
	 * X_HOST). NULL = only as its framework wants to know. */
	const char *meeting_env;
	bool func_key;       /* ranks get the key that signs a function and its results (lib/protocol/func_key.h) */
	const char *id_text; /* how shims identify themselves: "munge", "file:PATH", "fd:N" */
};

#endif
