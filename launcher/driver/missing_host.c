/* SPDX-License-Identifier: Apache-2.0 */
#include "agent_registry_internal.h"

#include <string.h>

int hvd_missing_host_hint(const struct hvd_agent_registry *agents, struct hvd_err *why)
{
	const struct hvd_driver_opts *opts = agents->opts;
	bool munge = strcmp(opts->id_text, "munge") == 0;

	return hvd_err_hint(
		why, "%sis the host up, %sdoes a firewall block port %u of %s? --start-timeout allows more time",
		opts->by_plugin ? "does plugstack.conf there list hvd.so? " : "",
		munge ? "is munged running there, " : "", hvd_clients_port(agents->clients), agents->self.host);
}
