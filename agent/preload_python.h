/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preload_python.h - starts the Python from which ranks are forked (preload.h): with which command, environment and CPUs.
 */
#ifndef HVD_PRELOAD_PYTHON_H
#define HVD_PRELOAD_PYTHON_H

#include "lib/base/strv.h"
#include "lib/process/spawn.h"

#include <stdbool.h>

struct hvd_preload_python {
	struct hvd_strv argv, env; /* owned */
	cpu_set_t cpus;            /* if it is bound */
	bool bound, ignore_ends;
	unsigned long nofile;
};

/* Keep with what to start it, from that of the host's first rank. */
void hvd_preload_python_keep(struct hvd_preload_python *python, const struct hvd_spawn *rank);
void hvd_preload_python_clear(struct hvd_preload_python *python);

/* Would the rank, started by itself, find the same of what Python and libraries read before the program begins? */
bool hvd_preload_python_fits(const struct hvd_preload_python *python, const struct hvd_spawn *rank);
/* The name of a variable that makes it impossible to fork such ranks; NULL: there is none. */
const char *hvd_preload_python_obstacle(const struct hvd_spawn *rank);

/* Start it. It imports the modules, which have commas between them. *socket is then this process's end of its socket,
 * which the caller closes. Returns its pid; -1 with err set. */
pid_t hvd_preload_python_start(const struct hvd_preload_python *python, const char *modules, int key_fd, int *socket,
			       struct hvd_err *err);

#endif
