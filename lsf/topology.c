/* SPDX-License-Identifier: Apache-2.0 */
#include "topology.h"

#include "lib/base/cleanup.h"
#include "lib/base/digits.h"
#include "lib/base/xalloc.h"
#include "lib/host/bind.h"
#include "lib/host/this_host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MARK "hvd-topology "

char *hvd_topology_line(struct hvd_err *err)
{
	struct hvd_cores cores;
	char host[256] = "";

	if (gethostname(host, sizeof(host) - 1) != 0) {
		hvd_err_sys(err, "cannot get this host's name");
		return NULL;
	}
	if (hvd_bind_cores(&cores, NULL, err) != 0)
		return NULL;
	return hvd_xasprintf(MARK "%s cores=%d threads=%d sockets=%d", host, cores.cores, cores.threads,
			     cores.packages);
}

/* Read `name` and a number behind it, and move *at behind both. -1 when they are not there. */
static int number(const char **at, const char *name, int *out)
{
	size_t len = strlen(name);

	if (strncmp(*at, name, len) != 0)
		return -1;
	*at += len;
	*out = (int)hvd_take_digits(at, HVD_ERF_MAX_CPUS);
	return *out > 0 ? 0 : -1;
}

static int find(const struct hvd_alloc *a, const char *name)
{
	int host = hvd_alloc_find(a, name);

	for (int i = 0; host < 0 && i < a->n_hosts; i++)
		if (hvd_same_host(a->hosts[i].name, name))
			host = i;
	return host;
}

static int parse_line(struct hvd_erf_host *hosts, const struct hvd_alloc *a, const char *line, struct hvd_err *err)
{
	const char *at = line + strlen(MARK);
	struct hvd_erf_host has = {0};
	size_t len = strcspn(at, " ");
	char name[256] = "";
	int host;

	if (len > 0 && len < sizeof(name)) {
		memcpy(name, at, len);
		at += len;
	}
	if (!*name || number(&at, " cores=", &has.cores) != 0 || number(&at, " threads=", &has.threads) != 0 ||
	    number(&at, " sockets=", &has.sockets) != 0 || at[strspn(at, "\r")])
		return hvd_err_set(err, HVD_E_PROTO, "a compute node answered \"%.120s\"", line);
	host = find(a, name);
	if (host < 0)
		return 0;
	hosts[host].cores = has.cores;
	hosts[host].threads = has.threads;
	hosts[host].sockets = has.sockets;
	return 0;
}

int hvd_topology_parse(struct hvd_erf_host *hosts, const struct hvd_alloc *a, const char *text, struct hvd_err *err)
{
	hvd_cleanup_free char *copy = hvd_xstrdup(text);
	char *save = NULL;

	for (int h = 0; h < a->n_hosts; h++)
		hosts[h].cores = 0;
	for (char *line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		if (strncmp(line, MARK, strlen(MARK)) == 0 && parse_line(hosts, a, line, err) != 0)
			return -1;
	for (int h = 0; h < a->n_hosts; h++)
		if (hosts[h].cores == 0) {
			hvd_err_set(err, HVD_E_PROTO, "it has not reported its cores");
			return hvd_err_host(err, a->hosts[h].name);
		}
	return 0;
}
