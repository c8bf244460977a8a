/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpi.h - the MPI that is installed, and how its mpirun is told what to start where.
 *
 * Four implementations are known, and three grammars. Open MPI up to release 4
 * and IBM Spectrum MPI, which is made of it, have the one of mpirun(1) of Open
 * MPI 4. Open MPI from 5 on is started by PRRTE, whose options have two dashes
 * (prterun(1)). MPICH and Intel MPI are started by hydra (MPICH, "Using the
 * Hydra Process Manager"; Intel MPI Library Developer Reference,
 * "mpiexec.hydra"). The arguments are those that horovodrun gives
 * (horovod/runner/mpi_run.py); it knows nothing of PRRTE, which gets the same in
 * its own words.
 */
#ifndef HVD_MPI_H
#define HVD_MPI_H

#include "lib/base/deadline.h"
#include "lib/base/err.h"
#include "lib/base/strv.h"
#include "lib/job/alloc.h"

#include <stdbool.h>

enum hvd_mpi {
	HVD_MPI_OPEN,  /* up to release 4 */
	HVD_MPI_PRRTE, /* Open MPI from release 5 on */
	HVD_MPI_SPECTRUM,
	HVD_MPI_MPICH,
	HVD_MPI_INTEL,
};

/* "Open MPI", …: for messages. */
const char *hvd_mpi_name(enum hvd_mpi mpi);
/* Is it of hydra's family? */
bool hvd_mpi_hydra(enum hvd_mpi mpi);
/* Is what ranks print to be kept in a folder by its mpirun? Otherwise by the shims: hydra knows no folders, and those
 * of PRRTE have its process id in their names. */
bool hvd_mpi_keeps_output(enum hvd_mpi mpi);

/* Whose is this answer to --version? -1: nobody's that is known. */
int hvd_mpi_from_version(const char *text);

/* Ask `program` (searched in PATH of `envp`) with --version. HVD_E_NOENT when there is none that can be run,
 * HVD_E_USAGE when it is none of those, HVD_E_TIMEOUT. */
int hvd_mpi_detect(const char *program, char *const *envp, hvd_time deadline, enum hvd_mpi *mpi, struct hvd_err *err);

/* What is to be started. Nothing is owned. */
struct hvd_mpi_job {
	const struct hvd_alloc *hosts;
	const struct hvd_strv *nics;    /* the user's; may be empty */
	const struct hvd_strv *exports; /* names of variables that ranks are to have */
	const char *ssh_identity;       /* file, or NULL */
	const char *output_dir;         /* or NULL; for those that hvd_mpi_keeps_output() names */
	const char *binding_args;       /* instead of the usual ones, as a shell would read it; or NULL */
	const char *more_args;          /* more arguments, likewise; or NULL */
	int ssh_port;                   /* 0 = ssh's own */
	bool any_host_key;              /* ssh asks nobody whether it is the right host */
	bool tcp, timestamps, keep_going;
};

/* Append mpirun's arguments, up to the program that it is to start. HVD_E_USAGE when this MPI cannot do what is asked.
 */
int hvd_mpi_args(enum hvd_mpi mpi, const struct hvd_mpi_job *job, struct hvd_strv *argv, struct hvd_err *err);

/* "h1:2,h2:2", or without the slots. Caller frees. */
char *hvd_mpi_hosts(const struct hvd_alloc *hosts, bool slots);
/* "-p PORT -i FILE", what of it there is: for Open MPI and Intel MPI an argument, for MPICH the variable
 * HYDRA_LAUNCHER_EXTRA_ARGS. Caller frees. */
char *hvd_mpi_ssh_args(const struct hvd_mpi_job *job);

#endif
