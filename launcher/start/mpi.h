/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpi.h - the installed MPI, and the arguments of its mpirun.
 *
 * Four MPIs are supported, with three kinds of options. Open MPI up to release 4 and
 * IBM Spectrum MPI, which is derived from it, have those of mpirun(1) of Open
 * MPI 4. Open MPI from release 5 on is started by PRRTE, whose options have two
 * dashes (prterun(1)). MPICH and Intel MPI are started by hydra (MPICH, "Using
 * the Hydra Process Manager"; Intel MPI Library Developer Reference,
 * "mpiexec.hydra"). mpirun gets the arguments that horovodrun passes
 * (horovod/runner/mpi_run.py). horovodrun does not support PRRTE, which gets the
 * same in its own options.
 */
#ifndef HVD_MPI_H
#define HVD_MPI_H

#include "lib/base/deadline.h"
#include "lib/base/err.h"
#include "lib/base/strv.h"
#include "lib/host/alloc.h"

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
/* Is it started by hydra? */
bool hvd_mpi_hydra(enum hvd_mpi mpi);
/* Does its mpirun, and not the shims, write the files of --output-filename? hydra cannot, and PRRTE puts its process id
 * into the files' names. */
bool hvd_mpi_keeps_output(enum hvd_mpi mpi);

/* The MPI (enum hvd_mpi) whose mpirun prints this text for --version; -1: unknown. */
int hvd_mpi_from_version(const char *text);

/* Run `program` (searched in the PATH of `envp`) with --version. HVD_E_NOENT when it cannot be run, HVD_E_USAGE if
 * its output is that of an unknown MPI, HVD_E_TIMEOUT if it does not end in time. */
int hvd_mpi_detect(const char *program, char *const *envp, hvd_time deadline, enum hvd_mpi *mpi, struct hvd_err *err);

/* What mpirun starts. Nothing is owned. */
struct hvd_mpi_job {
	const struct hvd_alloc *hosts;
	const struct hvd_strv *nics;    /* --network-interfaces; may be empty */
	const struct hvd_strv *exports; /* names of variables that ranks are to have */
	const char *ssh_identity;       /* file, or NULL */
	const char *output_dir;         /* or NULL; where hvd_mpi_keeps_output() */
	const char *binding_args;       /* in place of hvdrun's own, quoted as for a shell; or NULL */
	const char *more_args;          /* more arguments, likewise; or NULL */
	int ssh_port;                   /* 0 = ssh's own */
	bool any_host_key;              /* ssh does not check host keys */
	bool tcp, timestamps, keep_going;
};

/* Append mpirun's arguments, up to the program that it starts. HVD_E_USAGE if this MPI does not support what the spec
 * asks for. */
int hvd_mpi_args(enum hvd_mpi mpi, const struct hvd_mpi_job *job, struct hvd_strv *argv, struct hvd_err *err);

/* "h1:2,h2:2", or without the slots. Caller frees. */
char *hvd_mpi_hosts(const struct hvd_alloc *hosts, bool slots);
/* The options for ssh, "-p PORT -i FILE" or a part of it: an argument for Open MPI and Intel MPI, the value of
 * HYDRA_LAUNCHER_EXTRA_ARGS for MPICH. Caller frees. */
char *hvd_mpi_ssh_args(const struct hvd_mpi_job *job);

#endif
