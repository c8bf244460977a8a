/* SPDX-License-Identifier: Apache-2.0 */
/*
 * name_service.h - does this host find names of hosts, and soon? It is asked without waiting longer than a program can.
 *
 * Where name servers drop what they are asked, glibc waits for each name as long as resolv.conf(5) allows: 10 s by
 * default. PyTorch looks up the name of its store's address before it uses the store (c10d's socket.cpp), and torchrun
 * fails where its host's own name has no address (rendezvous/utils.py).
 */
#ifndef HVD_NAME_SERVICE_H
#define HVD_NAME_SERVICE_H

#include "addr.h"

#define HVD_NAME_SERVICE_MS 400

struct hvd_name_service {
	bool slow;        /* it has not answered within HVD_NAME_SERVICE_MS; it may be asked still, in a thread */
	bool no_own_name; /* this host's own name has no address, as far as was heard */
};

/* Look up this host's own name, and the name of `addr`. Both are false where it cannot be asked. */
struct hvd_name_service hvd_name_service_ask(const struct hvd_addr *addr);

#endif
