/* SPDX-License-Identifier: Apache-2.0 */
#include "emit_roles.h"

#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"

#include <ctype.h>
#include <string.h>

static void set_of_role(struct hvd_strv *env, const struct hvd_emit_role *role, const char *what, const char *value)
{
	hvd_cleanup_free char *name = hvd_xasprintf("HVD_ROLE_%s_%s", role->name, what);

	if (!value || strlen(value) > HVD_EMIT_ROLES_MOST)
		return;
	for (char *c = name; *c; c++)
		*c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
	hvd_env_set(env, name, value);
}

void hvd_emit_roles(const struct hvd_emit_roles *in, struct hvd_strv *env)
{
	hvd_cleanup_free char *names = hvd_xstrdup("");

	for (int i = 0; i < in->n; i++)
		hvd_xappendf(&names, "%s%s", i ? "," : "", in->roles[i].name);
	hvd_env_set(env, "HVD_ROLE", in->roles[in->role].name);
	hvd_env_setf(env, "HVD_ROLE_REPLICA", "%d", in->replica);
	hvd_env_set(env, "HVD_ROLES", names);
	if (in->roles[in->role].common_ports)
		hvd_env_set(env, "HVD_PORTS", in->roles[in->role].ports);
	for (int i = 0; i < in->n; i++) {
		const struct hvd_emit_role *role = &in->roles[i];

		set_of_role(env, role, "HOSTS", role->hosts);
		set_of_role(env, role, "ADDRS", role->addrs);
		set_of_role(env, role, "SIZE", role->size);
		set_of_role(env, role, "PORTS", role->ports);
	}
}

void hvd_emit_job_store(in_port_t port, struct hvd_strv *env)
{
	if (port)
		hvd_env_setf(env, "HVD_JOB_STORE", "127.0.0.1:%u", port);
}
