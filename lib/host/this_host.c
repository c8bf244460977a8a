/* SPDX-License-Identifier: Apache-2.0 */
#include "this_host.h"

#include "lib/base/cleanup.h"
#include "lib/base/digits.h"
#include "lib/base/file.h"
#include "lib/net/iface.h"
#include "lib/net/nicspec.h"
#include "lib/protocol/auth.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Reading the interfaces takes under a millisecond; this is for a kernel that does not answer. */
#define QUERY_SECONDS 5.0

/* Add the addresses that the user wants, or with `wanted` false the others. One place stays free for 127.0.0.1. */
static void add_addrs(struct hvd_this_host *self, const struct hvd_ifaces *ifs, const struct hvd_nicspec *spec,
		      bool wanted)
{
	for (int i = 0; i < ifs->n; i++)
		for (int a = 0; a < ifs->v[i].n_addrs && self->n_addrs + 1 < HVD_BOOT_MAX_ADDRS; a++) {
			const struct hvd_addr *addr = &ifs->v[i].addrs[a].addr;

			if (hvd_nicspec_wants(spec, ifs->v[i].name, addr) == wanted)
				self->addrs[self->n_addrs++] = *addr;
		}
}

static int find_addrs(struct hvd_this_host *self, char *const *nics, struct hvd_err *err)
{
	HVD_CLEANUP(hvd_ifaces_clear) struct hvd_ifaces ifs = {0};
	HVD_CLEANUP(hvd_nicspec_clear) struct hvd_nicspec spec = {0};

	if (hvd_nicspec_parse(&spec, nics, err) != 0 ||
	    hvd_ifaces_query(&ifs, NULL, hvd_deadline_in(QUERY_SECONDS), err) != 0)
		return -1;
	add_addrs(self, &ifs, &spec, true);
	add_addrs(self, &ifs, &spec, false);
	return 0;
}

int hvd_machine_id(char id[HVD_MACHINE_LEN + 1], struct hvd_err *err)
{
	static const struct hvd_key none;
	unsigned char digest[HVD_MAC_LEN];
	char boot_id[64];
	struct stat st = {0};

	if (!hvd_read_start("/proc/sys/kernel/random/boot_id", boot_id, sizeof(boot_id) - 1) ||
	    stat("/proc/self/ns/net", &st) != 0)
		return hvd_err_sys(err, "cannot identify this machine: /proc is not readable");
	struct hvd_piece pieces[] = {
		{boot_id, strlen(boot_id)}, {&st.st_ino, sizeof(st.st_ino)}, {&st.st_dev, sizeof(st.st_dev)}};

	hvd_hmac(&none, pieces, 3, digest);
	hvd_hex(digest, HVD_MACHINE_LEN / 2, id);
	return 0;
}

int hvd_this_host_query(struct hvd_this_host *self, bool loopback, char *const *nics, struct hvd_err *err)
{
	memset(self, 0, sizeof(*self));
	gethostname(self->host, sizeof(self->host) - 1);
	if (hvd_machine_id(self->machine, err) != 0 || (!loopback && find_addrs(self, nics, err) != 0))
		return -1;
	return hvd_addr_parse("127.0.0.1", &self->addrs[self->n_addrs++]);
}

bool hvd_same_host(const char *a, const char *b)
{
	size_t len = strcspn(a, ".");

	if (strcmp(a, b) == 0)
		return true;
	return strcspn(b, ".") == len && strncmp(a, b, len) == 0 && (!a[len] || !b[len]);
}

bool hvd_like_this_host(const char *name)
{
	char own[256] = "";

	if (strcmp(name, "localhost") == 0 || strcmp(name, "127.0.0.1") == 0 || strcmp(name, "::1") == 0)
		return true;
	return gethostname(own, sizeof(own) - 1) == 0 && hvd_same_host(name, own);
}
