/* SPDX-License-Identifier: Apache-2.0 */
/*
 * name_service.h - can this host look up host names, and quickly, and where does its own name lead? The check never
 * waits longer than a program can.
 *
 * If name servers drop queries, glibc waits for each name as long as resolv.conf(5) allows: 10 s by default. PyTorch
 * looks up the name of its store's address before it uses the store (c10d's socket.cpp), and torchrun fails if its
 * host's own name has no address (rendezvous/utils.py). Horovod's process sets listen at the address to which the
 * host's own name leads, whatever HOROVOD_GLOO_IFACE says (gloo_context.cc, InitializeForProcessSet()).
 */
#ifndef HVD_NAME_SERVICE_H
#define HVD_NAME_SERVICE_H

#include "addr.h"

#define HVD_NAME_SERVICE_MS 400

struct hvd_name_service {
	bool slow;        /* it has not answered within HVD_NAME_SERVICE_MS; it may be asked still, in a thread */
	bool no_own_name; /* this host's own name has no address, as far as was heard */
	/* The address at which a server listens that was told this host's own name; AF_UNSPEC: not known. */
	struct hvd_addr own;
};

/* Look up this host's own name, and the name of `addr` unless that is NULL. Zeroed if the check is impossible. */
struct hvd_name_service hvd_name_service_ask(const struct hvd_addr *addr);

#endif
