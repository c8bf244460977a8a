/* SPDX-License-Identifier: Apache-2.0 */
/*
 * role_specs.h - what the user wants of each role of a launch.
 *
 *   hvdrun [options of the launch] --role=NAME [its options] command [args…] : --role=NAME [its options] command [args…]
 *   hvdrun [options of the launch] --roles=FILE
 *
 * A ":" that is a word of its own ends a command. The options in front of the first command are those of the launch and
 * of the first role, in any order; all later ones belong to their role. Column `whose` of the option tables says which is
 * which (optable.h). FILE is YAML, with the same options by their long names, and the commands as texts or lists:
 *
 *   events: events.jsonl
 *   roles:
 *     trainer: {nodes: 4, ntasks-per-node: 8, after: rollout, command: python train.py}
 *     rollout: {nodes: 2, replicas: 2, service: yes, ready: "http:8000/health", command: [./serve, --fast]}
 *
 * Command line, variables and files are untrusted input.
 */
#ifndef HVD_ROLE_SPECS_H
#define HVD_ROLE_SPECS_H

#include "launch_spec.h"
#include "lib/base/err.h"
#include "lib/base/size.h"
#include "lib/base/strv.h"
#include "lib/protocol/ready_question.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hvd_options;

/* --on-failure: what follows when the role has failed, or one of its replicas. */
enum hvd_on_failure {
	HVD_FAILURE_ENDS = 0, /* the launch ends, with the role's status */
	HVD_FAILURE_RESTARTS, /* its ranks restart, spec.max_restarts times; the failure after that ends the launch */
	HVD_FAILURE_IGNORED,  /* the other roles go on */
};

struct hvd_role_spec {
	const char *name; /* a small letter, then at most 31 small letters, digits, '-' and '_' */
	/* As for a launch of this role alone: the options of the launch, and its own. spec.ranks.n is the number of ranks
	 * of each replica, 0 if the hosts say it; the numbers of spec.elastic are the same. */
	struct hvd_launch_spec spec;
	struct hvd_options *options; /* owned; `name` and strings of `spec` are theirs */

	int hosts;     /* -N: of each replica, which has them alone; 0 = as many as its ranks need */
	int per_host;  /* --ntasks-per-node; 0 = the slots of the host */
	int cpus;      /* --cpus-per-task; 0 = not said */
	int gpus;      /* --gpus-per-task; -1 = not said */
	int het_group; /* --het-group; -1 = not said */
	int replicas;
	int with;                    /* the role on whose hosts it runs, as an index; -1 = it has hosts of its own */
	uint64_t after;              /* the roles that it waits for: a bit each, by index */
	bool service;                /* it ends when all roles that are no services have ended */
	struct hvd_ready_spec ready; /* when those that wait for it may start; `timeout` is always set */
	enum hvd_on_failure on_failure;
	in_port_t *ports; /* --ports=LIST, else that of `ready`: for the variables of all ranks. Owned */
	size_t n_ports;
	unsigned ports_each; /* --ports=NUMBER: so many free ones are reserved for each rank */
};

/* In the order of the command line or the file. A zeroed struct is an empty list. */
struct hvd_role_specs {
	struct hvd_role_spec *v;
	size_t n;
	struct hvd_strv notes, warnings; /* messages of all options, each once: for --verbose, and always shown */
};

/* Are there roles in this command line? Such a command line is not for hvd_options_parse(). False if an option in front of
 * the first command starts nothing, such as --help. */
bool hvd_role_specs_wanted(int argc, char *const *argv);

/* Read all roles, with the environment (NULL-terminated, or NULL) and the configuration files, and check them. After an
 * error, HVD_E_USAGE but for the lack of resources, *specs is empty. The caller clears it. */
int hvd_role_specs_load(struct hvd_role_specs *specs, int argc, char *const *argv, char *const *envp,
			struct hvd_err *err);
/* The same with the text of the file that the command line names. */
int hvd_role_specs_parse(struct hvd_role_specs *specs, int argc, char *const *argv, char *const *envp, const char *text,
			 size_t len, struct hvd_err *err);
void hvd_role_specs_clear(struct hvd_role_specs *specs); /* NULL is fine */

/* The index of the role of this name; -1: there is none. */
int hvd_role_find(const struct hvd_role_specs *specs, const char *name);
/* All replicas of all roles, of which each is a world. At most HVD_MAX_RANK_WORLDS. */
static inline int hvd_role_worlds(const struct hvd_role_specs *specs)
{
	int n = 0;

	for (size_t i = 0; i < specs->n; i++)
		n += specs->v[i].replicas;
	return n;
}
/* The ranks of all roles, as far as options say. */
int hvd_role_specs_ranks(const struct hvd_role_specs *specs);
/* The hosts of all replicas of a role, if each host has `each` ranks, unless --ntasks-per-node says another number; 0: that is
 * not known, or the role has all hosts that are left. */
int64_t hvd_role_n_hosts(const struct hvd_role_spec *role, int each);
/* The role whose hosts are those of this one, itself or at the end of its chain of --with. */
int hvd_role_base(const struct hvd_role_specs *specs, int role);

#endif
