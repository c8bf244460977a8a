/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elastic_end.c - the end of a world of an elastic job, and what follows for the others.
 *
 * The last one that is no service ends the job, whose status is the highest of these. A failure ends it at once if the world
 * was added so. If the others go on, the failure is logged now, the ranks that the machine has left alone are ended, and the report at the
 * end of the job is that of the world which has decided the status.
 */
#include "elastic_internal.h"

#include <stdlib.h>
#include <string.h>

/* Those that the machine has left alone. */
static void stop_ranks(const struct elastic_part *part)
{
	const struct hvd_worker *w;

	for (uint32_t i = 0; (w = hvd_machine_nth_worker(part->machine, i)); i++)
		if (w->state != HVD_WORKER_GONE && w->state != HVD_WORKER_ENDING)
			hvd_world_stop(part->world, w->host, w->id, false);
}

static bool all_over(const struct elastic *el)
{
	for (unsigned i = 0; i < el->n_parts; i++)
		if (!el->parts[i]->over && !el->parts[i]->service)
			return false;
	return true;
}

void hvd_elastic_part_over(struct elastic_part *part, const struct hvd_err *why, int status)
{
	static const struct hvd_err logged = {0};
	struct elastic *el = part->el;
	struct hvd_job *job = el->policy.job;
	struct hvd_err in_vain = {0};
	bool ends_all = status != 0 && part->ends_all, decides, last;

	if (part->over || job->ending)
		return;
	part->over = true;
	hvd_world_ready_stop(part->world);
	if (el->roles && !ends_all && hvd_elastic_roles_over(part, &in_vain) != 0) {
		if (why->code)
			hvd_log_err(part->log, why);
		why = &in_vain;
		ends_all = true;
		status = status ? status : 1;
	}
	part->status = status;
	decides = ends_all || (status > el->status && !part->service);
	last = ends_all || all_over(el);
	if (decides) {
		el->status = status;
		job->failed_world = part->number;
		job->ranks_failed |= why->code == HVD_E_FAILED;
	}
	if (last && (decides || !why->code)) {
		const struct hvd_err named = hvd_elastic_named(part, why);

		hvd_job_end(job, why == &in_vain ? why : &named, el->status);
		return;
	}
	if (why->code)
		hvd_log_err(part->log, why);
	if (last)
		hvd_job_end(job, &logged, el->status);
	else
		stop_ranks(part);
	job->failures[part->number].let_go = !last && status != 0;
}

json_t *hvd_elastic_result(const struct elastic *el)
{
	json_t *list = el->parts[0]->opts->role ? json_array() : NULL;

	for (unsigned i = 0; list && i < el->n_parts; i++) {
		const struct elastic_part *part = el->parts[i];
		const char *role = part->opts->role;
		const size_t len = strcspn(role, "/");
		json_t *one = json_pack("{s:s%, s:i, s:i, s:i, s:i}", "name", role, len, "replica",
					role[len] ? atoi(role + len + 1) : 0, "ranks",
					part->world ? hvd_world_layout(part->world)->size : 0, "generations",
					hvd_machine_generation(part->machine), "restarts",
					hvd_machine_restarts(part->machine));

		if (part->over)
			json_object_set_new(one, "status", json_integer(part->status));
		json_array_append_new(list, one);
	}
	return list;
}
