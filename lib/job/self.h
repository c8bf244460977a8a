/* SPDX-License-Identifier: Apache-2.0 */
/*
 * self.h - this host, as a server of the launch sees it: its name, which machine it is, where it can be reached.
 */
#ifndef HVD_SELF_H
#define HVD_SELF_H

#include "lib/base/err.h"
#include "lib/net/addr.h"
#include "node.h"

#include <stddef.h>

struct hvd_self {
	char host[256];                    /* gethostname */
	char machine[HVD_MACHINE_LEN + 1]; /* see struct hvd_node */
	struct hvd_addr *addrs;            /* of better interfaces first; 127.0.0.1 last */
	size_t n_addrs;
};

/* At most `most` addresses, those first that a list of interfaces wants (nicspec.h; NULL: all alike); `loopback`:
 * 127.0.0.1 alone. After an error *self is empty. */
int hvd_self_find(struct hvd_self *self, size_t most, bool loopback, char *const *nics, struct hvd_err *err);
void hvd_self_clear(struct hvd_self *self);

/* Is that a name of the machine we are on? "node1" and "node1.example.org" are one. */
bool hvd_self_named(const char *name);

#endif
