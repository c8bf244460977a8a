/* SPDX-License-Identifier: Apache-2.0 */
/*
 * driver_opts.h - what a driver must know of its launch besides the launch spec.
 */
#ifndef HVD_DRIVER_OPTS_H
#define HVD_DRIVER_OPTS_H

#include "launcher/events/event_log.h"
#include "launcher/options/launch_spec.h"
#include "launcher/options/launchers.h"
#include "lib/base/log.h"
#include "lib/base/strv.h"
#include "lib/protocol/ready_question.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

/* --kill-wait where Slurm does not say. */
#define HVD_KILL_WAIT 15.0

struct hvd_clients;
struct hvd_metrics;

struct hvd_driver_opts {
	const struct hvd_launch_spec *spec; /* not owned */
	/* The name of these ranks among those of a launch with roles: "trainer", of a replica "rollout/1". Not owned; NULL: the
	 * launch has no roles. */
	const char *role;
	const struct hvd_ready_spec *ready; /* when these ranks are ready; not owned; NULL: when they were started */
	struct hvd_event_log *events;       /* not owned; NULL: none */
	struct hvd_metrics *metrics;        /* launcher/metrics/metrics.h; not owned; NULL: none */
	enum hvd_start_mode mode;
	bool queued;    /* it may wait in a queue: the start's time begins with the first agent */
	bool by_plugin; /* srun's plugin gets the tasks their plans; a node without it runs them as they are */
	bool loopback;  /* all ranks are on this machine: listen on 127.0.0.1 only */
	/* Has the scheduler suspended this job? Asks it, for some seconds at most. NULL: no. */
	bool (*ask_paused)(uint32_t job, const struct hvd_log *log);
	/* --ports of a role: each rank has so many ports of its own, and a host at most so many of these ranks. */
	struct {
		unsigned each, ranks;
	} role_ports;
	uint32_t wanted_ranks;      /* with spares: how many ranks are needed; 0 = all of the hosts that are kept */
	bool ranks_per_host;        /* the user gave ranks per host: wanted_ranks of all hosts are no more than these */
	uint32_t hosts, ranks;      /* 0: the first registration decides */
	struct hvd_strv names;      /* the hosts' names, for messages; may be empty */
	in_port_t port_lo, port_hi; /* 0: any */
	struct hvd_clients *clients; /* connections of self-registering agents, not owned; NULL: listen for agents */
	struct hvd_strv extra_env;   /* NAME=VALUE for every rank, besides spec->env */
	/* X: give every rank, whatever its framework, the address of the rendezvous (X_ADDR, X_PORT) and its own
	 * (X_RANK, X_HOST). NULL = only what its framework needs. */
	const char *rendezvous_env;
	double kill_wait;    /* seconds that a rank which was asked to end has until it is killed */
	bool func_key;       /* ranks get the key that signs a function and its results (lib/protocol/func_key.h) */
	const char *id_text; /* how shims identify themselves: "munge", "file:PATH", "fd:N" */
};

#endif
