/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launchers.h - the values of --launcher besides auto. Each has a backend, hvd_backend_NAME (launcher/start/backend.h).
 * Without a value the first that suits is taken: lsrun suits an LSF job without blaunch, blaunch any other LSF job; mpirun
 * and join never suit, fork always does.
 */
#ifndef HVD_LAUNCHERS_H
#define HVD_LAUNCHERS_H

#define HVD_LAUNCHERS(NAME)                                                                                            \
	NAME(srun) NAME(jsrun) NAME(lsrun) NAME(blaunch) NAME(ssh) NAME(mpirun) NAME(join) NAME(fork)

#endif
