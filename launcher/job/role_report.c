/* SPDX-License-Identifier: Apache-2.0 */
#include "role_report.h"

#include "launcher/options/rank_commands.h"
#include "launcher/options/role_specs.h"
#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"
#include "lib/process/command_line.h"

#include <string.h>

char *hvd_role_report_text(const struct hvd_launch *launch, const struct hvd_role_hosts *hosts)
{
	hvd_cleanup_free char *places = hvd_role_hosts_text(hosts, launch->roles, &launch->alloc);
	char *text = hvd_xstrdup("");
	int world = 0;

	for (char *save = NULL, *line = strtok_r(places, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		const struct hvd_role_spec *role = &launch->roles->v[hosts->worlds[world++].role];
		hvd_cleanup_free char *command = hvd_command_line(role->spec.command);

		hvd_xappendf(&text, "# role %s\n#   %s\n", line, command);
	}
	return text;
}

static json_t *share_json(const struct hvd_share *share)
{
	return json_pack("{s:i, s:i}", "first", share->first, "n", share->n);
}

static json_t *places_json(const struct hvd_role_world *world, const struct hvd_alloc *alloc)
{
	json_t *list = json_array();

	for (int i = 0; i < world->n_places; i++) {
		const struct hvd_role_place *place = &world->places[i];

		json_array_append_new(list, json_pack("{s:s, s:i, s:o, s:o}", "name", alloc->hosts[place->host].name,
						      "slots", place->slots, "cpus", share_json(&place->share.cpus),
						      "gpus", share_json(&place->share.gpus)));
	}
	return list;
}

json_t *hvd_role_report_json(const struct hvd_launch *launch, const struct hvd_role_hosts *hosts)
{
	json_t *list = json_array();

	for (int i = 0; i < hosts->n_worlds; i++) {
		const struct hvd_role_world *world = &hosts->worlds[i];
		const struct hvd_role_spec *role = &launch->roles->v[world->role];

		json_array_append_new(
			list, json_pack("{s:s, s:i, s:i, s:o, s:o, s:b}", "role", role->name, "replica", world->replica,
					"ranks", world->ranks, "hosts", places_json(world, &launch->alloc), "command",
					hvd_rank_command(&role->spec, 0, true), "service", role->service));
	}
	return list;
}
