/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launchers.h - the launchers, which are the values of --launcher besides auto, and their start modes. Each has a backend,
 * hvd_backend_NAME (launcher/start/backend.h). Without a value the first that suits is taken: lsrun suits an LSF job
 * without blaunch, blaunch any other LSF job; mpirun and join never suit, fork always does.
 */
#ifndef HVD_LAUNCHERS_H
#define HVD_LAUNCHERS_H

#define HVD_LAUNCHERS(NAME)                                                                                            \
	NAME(srun) NAME(jsrun) NAME(lsrun) NAME(blaunch) NAME(ssh) NAME(mpirun) NAME(join) NAME(fork)

/* Who starts the ranks of a launch, and who ends them. */
enum hvd_start_mode {
	/* srun's plugin: srun starts the tasks and ends them. Each host's first task starts its agent. */
	HVD_START_PLUGIN = 0,
	/* srun, mpirun: the backend is one process, which starts a rank shim for each rank, ends the ranks, and gets
	 * the terminal's signals itself. The first shim of a host starts its agent. */
	HVD_START_RANKS,
	/* jsrun: the same, but the backend cannot be relied on to end the ranks. So the agents have the shims end them
	 * when the driver says so or the connection drops. */
	HVD_START_SUPERVISED_RANKS,
	/* blaunch, lsrun, ssh, fork, join, steps: the backend is one process for each host, a node agent, which starts the
	 * host's ranks, reports how they end, and ends them when the driver says so or the connection drops. */
	HVD_START_HOSTS,
};

#endif
