/* SPDX-License-Identifier: Apache-2.0 */
#include "slurm.h"

#ifdef HVD_WITH_SLURM

#include "gres.h"
#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"
#include "slurm_nodes.h"

#include <errno.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One function with two names in the releases of libslurm. Both are weak: the one that is missing is NULL. */
extern void slurm_free_ctl_conf(slurm_conf_t *conf) __attribute__((weak));
extern void slurm_free_conf(slurm_conf_t *conf) __attribute__((weak));

static void free_conf(slurm_conf_t *conf)
{
	if (slurm_free_ctl_conf)
		slurm_free_ctl_conf(conf);
	else if (slurm_free_conf)
		slurm_free_conf(conf);
}

bool hvd_slurm_built_in(void)
{
	return true;
}

void hvd_slurm_release(char text[16])
{
	const unsigned n = SLURM_VERSION_NUMBER;

	snprintf(text, 16, "%u.%02u.%u", SLURM_VERSION_MAJOR(n), SLURM_VERSION_MINOR(n), SLURM_VERSION_MICRO(n));
}

/* Later releases have more fields: they are zero, as in Slurm's own initializer. */
static slurm_step_id_t step_id(uint32_t job, uint32_t step)
{
	slurm_step_id_t id;

	memset(&id, 0, sizeof(id));
	id.job_id = job;
	id.step_id = step;
	id.step_het_comp = NO_VAL;
	return id;
}

static int slurm_failed(struct hvd_err *err, int code, const char *what)
{
	bool unknown = code == ESLURM_INVALID_JOB_ID || code == ESLURM_ALREADY_DONE;

	return hvd_err_set(err, unknown ? HVD_E_NOENT : HVD_E_SYS, "%s: %s", what, slurm_strerror(code));
}

int hvd_slurm_site_get(struct hvd_slurm_site *site, struct hvd_err *err)
{
	slurm_conf_t *conf = NULL;

	*site = (struct hvd_slurm_site){0};
	if (hvd_slurm_open(err) < 0)
		return -1;
	if (slurm_load_ctl_conf((time_t)0, &conf) != SLURM_SUCCESS)
		return slurm_failed(err, errno, "cannot ask Slurm for its configuration");
	if (conf->srun_port_range && conf->srun_port_range[0]) {
		site->port_lo = conf->srun_port_range[0];
		site->port_hi = conf->srun_port_range[1];
	}
	site->kill_wait = conf->kill_wait == NO_VAL16 ? 0 : conf->kill_wait;
	site->munge = conf->authtype && strcmp(conf->authtype, "auth/munge") == 0;
	site->binds = conf->task_plugin && conf->task_plugin[0] && strcmp(conf->task_plugin, "task/none") != 0;
	free_conf(conf);
	return 0;
}

/* The signatures that three functions have in the releases of libslurm. _Generic chooses the one that the installed
 * header declares. */
typedef void (*any_fn)(void);
typedef int (*kill_ids_fn)(uint32_t, uint32_t, uint16_t);
typedef int (*kill_ids_flags_fn)(uint32_t, uint32_t, uint16_t, uint16_t);
typedef int (*kill_step_fn)(slurm_step_id_t *, uint16_t, uint16_t);
typedef int (*load_id_fn)(job_info_msg_t **, uint32_t, uint16_t);
typedef int (*load_step_fn)(job_info_msg_t **, slurm_step_id_t, uint16_t);
typedef int (*script_id_fn)(FILE *, uint32_t);
typedef int (*script_step_fn)(FILE *, slurm_step_id_t);

static int kill_step(slurm_step_id_t id, uint16_t sig)
{
	const int shape = _Generic(&slurm_kill_job_step, kill_ids_fn : 1, kill_ids_flags_fn : 2, kill_step_fn : 3);
	any_fn fn = (any_fn)slurm_kill_job_step;

	if (shape == 1)
		return ((kill_ids_fn)fn)(id.job_id, id.step_id, sig);
	if (shape == 2)
		return ((kill_ids_flags_fn)fn)(id.job_id, id.step_id, sig, 0);
	return ((kill_step_fn)fn)(&id, sig, 0);
}

static int load_job(job_info_msg_t **msg, slurm_step_id_t id, uint16_t show)
{
	const int shape = _Generic(&slurm_load_job, load_id_fn : 1, load_step_fn : 2);
	any_fn fn = (any_fn)slurm_load_job;

	return shape == 1 ? ((load_id_fn)fn)(msg, id.job_id, show) : ((load_step_fn)fn)(msg, id, show);
}

static int batch_script(FILE *out, slurm_step_id_t id)
{
	const int shape = _Generic(&slurm_job_batch_script, script_id_fn : 1, script_step_fn : 2);
	any_fn fn = (any_fn)slurm_job_batch_script;

	return shape == 1 ? ((script_id_fn)fn)(out, id.job_id) : ((script_step_fn)fn)(out, id);
}

int hvd_slurm_step_signal(uint32_t job, uint32_t step, int signal, struct hvd_err *err)
{
	if (hvd_slurm_open(err) < 0)
		return -1;
	if (kill_step(step_id(job, step), (uint16_t)signal) == SLURM_SUCCESS)
		return 0;
	if (errno == ESLURM_INVALID_JOB_ID || errno == ESLURM_ALREADY_DONE)
		return 0;
	return slurm_failed(err, errno, "cannot signal the step");
}

static void take_gpus(const slurm_job_info_t *ji, struct hvd_slurm_job *out)
{
	/* Slurm gives one text for each host, or none at all. */
	if (out->hosts.n == 0 || ji->gres_detail_cnt != out->hosts.n)
		return;
	out->gpus = hvd_xcalloc(out->hosts.n, sizeof(*out->gpus));
	for (size_t i = 0; i < out->hosts.n; i++) {
		const char *text = ji->gres_detail_str[i];
		int n = text && *text ? hvd_gres_gpus(text) : 0;

		if (n < 0) {
			free(out->gpus);
			out->gpus = NULL;
			return;
		}
		out->gpus[i] = n;
	}
}

/* A number of tasks that the user asked for; 0 if the user did not. */
static int wished(uint32_t n, uint32_t unset)
{
	return n >= unset || n > HVD_MAX_RANKS ? 0 : (int)n;
}

static void take_rerun(const slurm_job_info_t *ji, struct hvd_slurm_rerun *out)
{
	out->batch = ji->batch_flag != 0;
	out->allowed = ji->requeue != 0;
	out->restarts = ji->restart_cnt;
	if (ji->array_job_id && ji->array_task_id != NO_VAL)
		snprintf(out->name, sizeof(out->name), "%u_%u", ji->array_job_id, ji->array_task_id);
	else
		snprintf(out->name, sizeof(out->name), "%u", ji->het_job_id ? ji->het_job_id : ji->job_id);
	out->nodes = ji->num_nodes;
	out->excluded = hvd_xstrdup(ji->exc_nodes ? ji->exc_nodes : "");
	out->required = hvd_xstrdup(ji->req_nodes ? ji->req_nodes : "");
	out->reservation = hvd_xstrdup(ji->resv_name ? ji->resv_name : "");
}

static const char *fate_of(uint32_t base)
{
	switch (base) {
	case JOB_CANCELLED:
		return "was cancelled (scancel)";
	case JOB_TIMEOUT:
		return "has reached its time limit";
	case JOB_PREEMPTED:
		return "was preempted";
	case JOB_NODE_FAIL:
		return "has lost a node";
	case JOB_DEADLINE:
		return "has reached its deadline";
	case JOB_OOM:
		return "has used up its memory";
	default:
		return NULL;
	}
}

static void take_facts(const slurm_job_info_t *ji, time_t now, struct hvd_slurm_job *out)
{
	const uint32_t base = ji->job_state & JOB_STATE_BASE;

	out->id = ji->job_id;
	out->name = hvd_xstrdup(ji->name ? ji->name : "");
	out->comment = hvd_xstrdup(ji->comment ? ji->comment : "");
	out->tasks_per_node = wished(ji->ntasks_per_node, INFINITE16);
	out->tasks = wished(ji->num_tasks, INFINITE);
	out->began = ji->start_time;
	out->ends = ji->end_time;
	out->now = now;
	out->preempted = ji->preempt_time != 0 && (base <= JOB_SUSPENDED || base == JOB_PREEMPTED);
	out->het = ji->het_job_id;
	out->fate = fate_of(base);
	out->paused = base == JOB_SUSPENDED || ji->job_state & JOB_CONFIGURING;
	take_rerun(ji, &out->rerun);
}

static int take_job(const slurm_job_info_t *ji, time_t now, struct hvd_slurm_job *out, struct hvd_err *err)
{
	uint32_t base = ji->job_state & JOB_STATE_BASE;

	out->state = HVD_SLURM_ENDED;
	if (base == JOB_PENDING)
		out->state = HVD_SLURM_PENDING;
	else if (base == JOB_RUNNING || base == JOB_SUSPENDED)
		out->state = HVD_SLURM_RUNNING;
	take_facts(ji, now, out);
	if (ji->nodes && *ji->nodes && hvd_hostlist_expand(ji->nodes, HVD_MAX_HOSTS, &out->hosts, err) < 0)
		return -1;
	take_gpus(ji, out);
	return 0;
}

int hvd_slurm_job_get(uint32_t job, struct hvd_slurm_job *out, struct hvd_err *err)
{
	job_info_msg_t *msg = NULL;
	int rc = -1;

	memset(out, 0, sizeof(*out));
	if (hvd_slurm_open(err) < 0)
		return -1;
	if (load_job(&msg, step_id(job, NO_VAL), SHOW_DETAIL) != SLURM_SUCCESS)
		return slurm_failed(err, errno, "cannot ask Slurm for the job");
	if (msg->record_count < 1)
		hvd_err_set(err, HVD_E_NOENT, "Slurm knows no job %u", job);
	else
		rc = take_job(&msg->job_array[0], msg->last_update, out, err);
	slurm_free_job_info_msg(msg);
	if (rc < 0)
		hvd_slurm_job_clear(out);
	return rc;
}

int hvd_slurm_jobs_get(struct hvd_slurm_job **jobs, size_t *n, struct hvd_err *err)
{
	job_info_msg_t *msg = NULL;
	int rc = 0;

	*jobs = NULL;
	*n = 0;
	if (hvd_slurm_open(err) < 0)
		return -1;
	if (slurm_load_job_user(&msg, geteuid(), SHOW_DETAIL) != SLURM_SUCCESS) {
		if (errno == ESLURM_INVALID_JOB_ID) /* 22.05: the user has none */
			return 0;
		return slurm_failed(err, errno, "cannot ask Slurm for this user's jobs");
	}
	*jobs = hvd_xcalloc(msg->record_count, sizeof(**jobs));
	for (; rc == 0 && *n < msg->record_count; ++*n)
		rc = take_job(&msg->job_array[*n], msg->last_update, &(*jobs)[*n], err);
	slurm_free_job_info_msg(msg);
	if (rc == 0)
		return 0;
	while (*n > 0)
		hvd_slurm_job_clear(&(*jobs)[--*n]);
	free(*jobs);
	*jobs = NULL;
	return -1;
}

char *hvd_slurm_job_script(uint32_t job, struct hvd_err *err)
{
	hvd_cleanup_free char *text = NULL;
	size_t len = 0;
	FILE *f;
	int rc;

	if (hvd_slurm_open(err) < 0)
		return NULL;
	f = open_memstream(&text, &len);
	if (!f) {
		hvd_err_sys(err, "cannot read the job's script");
		return NULL;
	}
	rc = batch_script(f, step_id(job, NO_VAL));
	if (rc != SLURM_SUCCESS)
		slurm_failed(err, errno, "cannot ask Slurm for the job's script");
	return fclose(f) == 0 && rc == SLURM_SUCCESS ? hvd_take_ptr(&text) : NULL;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int hvd_slurm_nodes_get(struct hvd_slurm_nodes *nodes, struct hvd_err *err)
{
	node_info_msg_t *msg = NULL;

	if (hvd_slurm_open(err) < 0)
		return -1;
	if (slurm_load_node((time_t)nodes->as_of, &msg, SHOW_ALL) != SLURM_SUCCESS) {
		if (errno == SLURM_NO_CHANGE_IN_DATA)
			return 0;
		if (errno != ESLURM_ACCESS_DENIED)
			return slurm_failed(err, errno, "cannot ask Slurm for the states of nodes");
		hvd_slurm_nodes_clear(nodes);
		nodes->hidden = true;
		return 0;
	}
	hvd_strv_free(&nodes->unusable);
	nodes->hidden = false;
	for (uint32_t i = 0; i < msg->record_count; i++)
		if (msg->node_array[i].name && hvd_slurm_node_unusable(msg->node_array[i].node_state))
			hvd_strv_add(&nodes->unusable, msg->node_array[i].name);
	if (nodes->unusable.n)
		qsort(nodes->unusable.v, nodes->unusable.n, sizeof(*nodes->unusable.v), by_name);
	nodes->as_of = msg->last_update;
	slurm_free_node_info_msg(msg);
	return 0;
}

#endif
