/* SPDX-License-Identifier: Apache-2.0 */
/*
 * emit.h - what a rank is told in its environment, framework by framework.
 *
 * The plan knows no framework: it knows a rank's place, the interfaces of its
 * host and where the rendezvous is. Each emitter turns that into the variables
 * of one framework. To support another one, add an emitter to the table.
 */
#ifndef HVD_EMIT_H
#define HVD_EMIT_H

#include "lib/base/strv.h"
#include "lib/job/layout.h"
#include "lib/net/addr.h"

#include <stdbool.h>

struct hvd_emit {
	bool mpi; /* the workers' controller is MPI: whatever started the ranks tells them rank and size */
	bool one_machine;
	const struct hvd_rank_slot *slot;
	const char *hostname;       /* the same on all ranks of a host, another on every other host */
	const char *iface;          /* the best interface of this host that all hosts share */
	const char *ifaces;         /* all that are shared, best first, with commas */
	struct hvd_addr rendezvous; /* as this host reaches it */
	in_port_t port;
};

/* Set the variables of every framework in `env`. A name may be "A?B": A, unless the rank's environment has A or B
 * already; hvd_emit_name() settles it. */
void hvd_emit_all(const struct hvd_emit *in, struct hvd_strv *env);

/* The variable to set in the environment `envp` (NULL-terminated) for a name as above, or NULL when none is to be set,
 * as where user or site have set one of those that yield (emitted.h). Caller frees. */
char *hvd_emit_name(const char *name, char *const *envp);

#endif
