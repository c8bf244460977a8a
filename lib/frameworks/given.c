/* SPDX-License-Identifier: Apache-2.0 */
#include "given.h"

#include "lib/base/strv.h"
#include "lib/base/xalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SITE_CONF "/etc/nccl.conf"

/* NCCL's own reader: lines NAME=VALUE, comments begin with # in the first column. */
static char *from_file(const char *path, const char *name)
{
	char line[HVD_GIVEN_MAX + 64], *value = NULL;
	size_t len = strlen(name);
	FILE *f = fopen(path, "re");

	while (f && !value && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\r\n")] = '\0';
		if (strncmp(line, name, len) == 0 && line[len] == '=' && line[len + 1])
			value = hvd_xstrdup(line + len + 1);
	}
	if (f)
		fclose(f);
	return value;
}

static bool told(char *found, const char *source, char **value, char **where)
{
	if (!found)
		return false;
	if (value)
		*value = found;
	else
		free(found);
	if (where)
		*where = hvd_xstrdup(source);
	return true;
}

bool hvd_given(const char *name, char *const *envp, const char *site, char **value, char **where)
{
	const char *text = hvd_envp_get(envp, name), *home = hvd_envp_get(envp, "HOME");
	const char *own = hvd_envp_get(envp, "NCCL_CONF_FILE");
	char *path;
	bool found;

	if (text && *text)
		return told(hvd_xstrdup(text), "the environment", value, where);
	if (strncmp(name, "NCCL_", 5) != 0)
		return false;
	path = own && *own ? hvd_xstrdup(own) : home ? hvd_xasprintf("%s/.nccl.conf", home) : NULL;
	found = path && told(from_file(path, name), path, value, where);
	free(path);
	return found || told(from_file(site ? site : SITE_CONF, name), site ? site : SITE_CONF, value, where);
}

bool hvd_given_selects(const char *value, bool nccl, const char *iface)
{
	bool others = nccl && *value == '^', whole, among = false;

	value += others;
	whole = !nccl || *value == '=';
	value += nccl && whole;
	for (;;) {
		size_t len = strcspn(value, ","), name = strcspn(value, nccl ? ",:" : ",");

		if (name && strncmp(iface, value, name) == 0 && (!whole || !iface[name]))
			among = true;
		if (!value[len])
			return among != others;
		value += len + 1;
	}
}
