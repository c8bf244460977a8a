/* SPDX-License-Identifier: Apache-2.0 */
/*
 * observing_agent.h - the agent of a host whose ranks Slurm, an MPI or jsrun starts.
 *
 * It is a process of its own (detached.h), which lasts as long as the host's ranks. The first process of the launch on
 * the host starts it, before anything is connected. The agent
 *   registers the host, probes, and gets the plan (driver_client.h);
 *   hands each shim of the host its plan (shims.h), or all tasks of the plugin their variables
 *   (lib/protocol/step_plans.h);
 *   has the host's relay of the rendezvous, if the plan has one (relay.h), and the sockets of ports that are reserved
 *   for the ranks (ports.h);
 *   observes the ranks (observed_ranks.h), reports their ends to the driver, and answers its questions (rank_watch.h).
 * If the agent starts the ranks itself, it is a spawning agent (spawning_agent.h).
 */
#ifndef HVD_OBSERVING_AGENT_H
#define HVD_OBSERVING_AGENT_H

#include "lib/base/err.h"
#include "lib/base/log.h"
#include "lib/protocol/boot.h"
#include "taskinfo.h"

#include <stdbool.h>
#include <sys/types.h>

/* Who starts the ranks. From HVD_OBSERVING_AGENT_MPI on, it is no slurmstepd. */
enum hvd_observing_agent_kind {
	HVD_OBSERVING_AGENT_PLUGIN, /* slurmstepd, with the plugin: it sends events */
	HVD_OBSERVING_AGENT_SRUN,   /* slurmstepd; shims send events */
	HVD_OBSERVING_AGENT_MPI,    /* a daemon of an MPI; shims that end by themselves when that does */
	HVD_OBSERVING_AGENT_JSRUN,  /* jsrun: shims end their ranks when the driver says so or is gone */
};

struct hvd_observing_agent_opts {
	enum hvd_observing_agent_kind kind;
	const struct hvd_boot *boot; /* these are not owned; the process gets a copy of them */
	struct hvd_taskinfo *info;
	const struct hvd_log *log;
	bool events; /* PLUGIN: HVD_STEP_EVENTS_FD, …_SPARE_FD and …_SEEN_FD are open (lib/protocol/step_event.h) */
	pid_t task;  /* PLUGIN, SRUN: a task of the step on this host */
	int socket;  /* PLUGIN: a connection to the process that asks for all plans; else one that listens for shims */
	char *const
		*command; /* PLUGIN: of the ranks, not in the memory of this process's arguments; empty: not known */
};

/* Start the agent. Its descriptors are closed here, also after an error. Returns its pid; -1 with err set. */
pid_t hvd_observing_agent_start(const struct hvd_observing_agent_opts *opts, struct hvd_err *err);

#endif
