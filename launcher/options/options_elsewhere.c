/* SPDX-License-Identifier: Apache-2.0 */
/* options_elsewhere.c - options of torchrun, accelerate and deepspeed, and what hvdrun has in their place. */
#include "options_rows.h"

#include <string.h>

#define ADDRESS "leave it out: the launch sets every rank's number, MASTER_ADDR and MASTER_PORT"
#define HOSTS                                                                                                          \
	"leave it out, or write -N NUMBER to have Slurm create a job. The hosts are those of the job or of --hosts, "  \
	"or this machine; --min-np and --max-np, which count ranks, are for elastic jobs"
#define PER_HOST "write --slots-per-host=NUMBER for the ranks of each host, or -np NUMBER for all of them"
#define COMMAND  "write the command as in a shell: python train.py, python -m MODULE, ./program"
#define FILES    "write --output-filename=DIRECTORY, which gets files of each rank's output"

static const struct {
	const char *name; /* a "*" at its end stands for anything */
	const char *whose;
	const char *instead;
} elsewhere[] = {
	{"nproc-per-node", "torchrun", PER_HOST},
	{"nnodes", "torchrun", HOSTS},
	{"node-rank", "torchrun", ADDRESS},
	{"master-addr", "torchrun", ADDRESS},
	{"master-port", "torchrun", ADDRESS},
	{"local-addr", "torchrun", ADDRESS},
	{"rdzv-*", "torchrun", ADDRESS},
	{"standalone", "torchrun", "leave it out: without a job and without listed hosts, ranks run on this machine"},
	{"monitor-interval", "torchrun", "leave it out: the launch notices the end of a rank at once"},
	{"start-method", "torchrun", "leave it out: each rank is a process of its own"},
	{"module", "torchrun", COMMAND},
	{"no-python", "torchrun", COMMAND},
	{"run-path", "torchrun", COMMAND},
	{"log-dir", "torchrun", FILES},
	{"redirects", "torchrun", FILES},
	{"tee", "torchrun", FILES},
	{"num-processes", "accelerate", "write -np NUMBER"},
	{"num-machines", "accelerate", HOSTS},
	{"machine-rank", "accelerate", ADDRESS},
	{"main-process-ip", "accelerate", ADDRESS},
	{"main-process-port", "accelerate", ADDRESS},
	{"num-gpus", "deepspeed", PER_HOST},
	{"num-nodes", "deepspeed", HOSTS},
};

/* Are the names equal, if "_" counts as "-"? */
static bool same(const char *name, const char *written)
{
	for (; *name && *name != '*'; name++, written++)
		if (*name != (*written == '_' ? '-' : *written))
			return false;
	return *name == '*' || !*written;
}

int hvd_options_elsewhere(const char *spelled, struct hvd_err *err)
{
	for (size_t i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++) {
		if (!same(elsewhere[i].name, spelled + 2))
			continue;
		hvd_err_set(err, HVD_E_USAGE, "%s is an option of %s", spelled, elsewhere[i].whose);
		return hvd_err_hint(err, "%s", elsewhere[i].instead);
	}
	return 0;
}
