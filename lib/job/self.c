/* SPDX-License-Identifier: Apache-2.0 */
#include "self.h"

#include "lib/base/xalloc.h"
#include "lib/net/iface.h"
#include "lib/net/nicspec.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Reading the interfaces takes under a millisecond; this is for a kernel that does not answer. */
#define QUERY_SECONDS 5.0

/* Those that are wanted, or those that are not. */
static void add_addrs(struct hvd_self *self, size_t most, const struct hvd_ifaces *ifs, const struct hvd_nicspec *spec,
		      bool wanted)
{
	for (int i = 0; i < ifs->n; i++)
		for (int a = 0; a < ifs->v[i].n_addrs && self->n_addrs + 1 < most; a++) {
			struct sockaddr_storage ss;
			struct hvd_addr addr;

			hvd_iface_sockaddr(&ifs->v[i].addrs[a], 0, &ss);
			hvd_addr_from_sockaddr((struct sockaddr *)&ss, &addr, NULL);
			if (hvd_nicspec_wants(spec, ifs->v[i].name, &addr) == wanted)
				self->addrs[self->n_addrs++] = addr;
		}
}

static int find_addrs(struct hvd_self *self, size_t most, char *const *nics, struct hvd_err *err)
{
	struct hvd_ifaces ifs = {0};
	struct hvd_nicspec spec;

	if (hvd_nicspec_parse(&spec, nics, err) != 0)
		return -1;
	if (hvd_ifaces_query(&ifs, NULL, hvd_deadline_in(QUERY_SECONDS), err) != 0) {
		hvd_nicspec_clear(&spec);
		return -1;
	}
	add_addrs(self, most, &ifs, &spec, true);
	add_addrs(self, most, &ifs, &spec, false);
	hvd_ifaces_clear(&ifs);
	hvd_nicspec_clear(&spec);
	return 0;
}

int hvd_self_find(struct hvd_self *self, size_t most, bool loopback, char *const *nics, struct hvd_err *err)
{
	struct hvd_node node = {0};

	memset(self, 0, sizeof(*self));
	self->addrs = hvd_xcalloc(most, sizeof(*self->addrs));
	gethostname(self->host, sizeof(self->host) - 1);
	if (hvd_node_set_machine(&node, err) != 0 || (!loopback && find_addrs(self, most, nics, err) != 0)) {
		hvd_self_clear(self);
		return -1;
	}
	memcpy(self->machine, node.machine, sizeof(self->machine));
	return hvd_addr_parse("127.0.0.1", &self->addrs[self->n_addrs++]);
}

void hvd_self_clear(struct hvd_self *self)
{
	free(self->addrs);
	memset(self, 0, sizeof(*self));
}

bool hvd_self_named(const char *name)
{
	char own[256] = "";
	size_t len;

	if (strcmp(name, "localhost") == 0 || strcmp(name, "127.0.0.1") == 0 || strcmp(name, "::1") == 0)
		return true;
	if (gethostname(own, sizeof(own) - 1) != 0)
		return false;
	if (strcmp(name, own) == 0)
		return true;
	/* "node1" and "node1.example.org" */
	len = strcspn(own, ".");
	return strcspn(name, ".") == len && strncmp(name, own, len) == 0 && (name[len] == '\0' || own[len] == '\0');
}
