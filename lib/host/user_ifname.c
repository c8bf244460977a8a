/* SPDX-License-Identifier: Apache-2.0 */
#include "user_ifname.h"

#include "lib/base/cleanup.h"
#include "lib/base/strv.h"
#include "lib/base/xalloc.h"

#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define SITE_CONF "/etc/nccl.conf"

const char *hvd_user_ifname_name(enum hvd_user_ifname_var var)
{
	return var == HVD_NCCL_IFNAME ? "NCCL_SOCKET_IFNAME" : "GLOO_SOCKET_IFNAME";
}

void hvd_user_ifname_clear(struct hvd_user_ifname *set)
{
	free(set->value);
	free(set->source);
	free(set->missing);
	memset(set, 0, sizeof(*set));
}

static bool set(struct hvd_user_ifname *found, const char *value, const char *source)
{
	if (found) {
		found->value = hvd_xstrndup(value, HVD_USER_IFNAME_MAX);
		found->source = hvd_xstrndup(source, HVD_USER_IFNAME_MAX);
	}
	return true;
}

/* Reads as NCCL does: each line is NAME=VALUE, and a comment begins with # in the first column. */
static bool find_in_file(const char *path, const char *name, struct hvd_user_ifname *found)
{
	char line[HVD_USER_IFNAME_MAX + 64];
	size_t len = strlen(name);
	hvd_cleanup_fclose FILE *f = fopen(path, "re");
	bool there = false;

	while (f && !there && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\r\n")] = '\0';
		if (strncmp(line, name, len) == 0 && line[len] == '=' && line[len + 1])
			there = set(found, line + len + 1, path);
	}
	return there;
}

bool hvd_user_ifname_find(const char *name, char *const *envp, const char *site_conf, struct hvd_user_ifname *found)
{
	const char *value = hvd_envp_value(envp, name), *home = hvd_envp_get(envp, "HOME");
	const char *conf = hvd_envp_value(envp, "NCCL_CONF_FILE");
	hvd_cleanup_free char *path = NULL;

	if (found)
		memset(found, 0, sizeof(*found));
	if (value)
		return set(found, value, "the environment");
	if (strncmp(name, "NCCL_", 5) != 0)
		return false;
	path = conf ? hvd_xstrdup(conf) : home ? hvd_xasprintf("%s/.nccl.conf", home) : NULL;
	return (path && find_in_file(path, name, found)) ||
	       find_in_file(site_conf ? site_conf : SITE_CONF, name, found);
}

static bool has_address(const struct ifaddrs *all, const char *name, size_t len)
{
	for (const struct ifaddrs *i = all; i; i = i->ifa_next)
		if (i->ifa_addr && (i->ifa_addr->sa_family == AF_INET || i->ifa_addr->sa_family == AF_INET6) &&
		    strncmp(i->ifa_name, name, len) == 0 && !i->ifa_name[len])
			return true;
	return false;
}

char *hvd_user_ifname_missing(const char *value)
{
	struct ifaddrs *all = NULL;
	char *missing = NULL;

	if (getifaddrs(&all) != 0)
		return NULL;
	for (size_t len; *value; value += len + (value[len] == ',')) {
		len = strcspn(value, ",");
		if (len > 0 && !has_address(all, value, len))
			hvd_xappendf(&missing, "%s%.*s", missing ? ", " : "", (int)len, value);
	}
	freeifaddrs(all);
	return missing;
}

bool hvd_user_ifname_selects(const char *value, enum hvd_user_ifname_var var, const char *iface)
{
	bool nccl = var == HVD_NCCL_IFNAME, excludes = nccl && *value == '^', whole, listed = false;

	value += excludes;
	whole = !nccl || *value == '=';
	value += nccl && whole;
	for (;;) {
		size_t len = strcspn(value, ","), name = strcspn(value, nccl ? ",:" : ",");

		if (name && strncmp(iface, value, name) == 0 && (!whole || !iface[name]))
			listed = true;
		if (!value[len])
			return listed != excludes;
		value += len + 1;
	}
}
