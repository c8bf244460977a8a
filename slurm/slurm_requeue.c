/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slurm.h: a job that is requeued, and the nodes that it is then kept away from.
 */
#include "slurm.h"

#ifdef HVD_WITH_SLURM

#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"
#include "slurm_nodes.h"

#include <errno.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <stdlib.h>
#include <string.h>

/* The outcome for one job. If the job was named as a task of an array, the call itself succeeds, and the answer has the
 * task's error. Frees the answer. */
static int outcome(int rc, job_array_resp_msg_t *answer)
{
	int code = rc == SLURM_SUCCESS ? 0 : errno;

	for (uint32_t i = 0; answer && i < answer->job_array_count && code == 0; i++)
		code = (int)answer->error_code[i];
	if (answer)
		slurm_free_job_array_resp(answer);
	return code;
}

/* JOB_RUNNING: Slurm does nothing to a job that does not run any longer, so that of two processes of a job that ask for
 * the same, the later one has no effect, and a job that was cancelled stays so. */
int hvd_slurm_requeue(const struct hvd_slurm_rerun *rerun, bool ended, struct hvd_err *err)
{
	job_array_resp_msg_t *answer = NULL;
	char name[sizeof(rerun->name)];
	int code;

	if (hvd_slurm_open(err) < 0)
		return -1;
	memcpy(name, rerun->name, sizeof(name));
	code = slurm_requeue2(name, ended ? 0 : JOB_RUNNING, &answer);
	code = outcome(code, answer);
	if (code == 0)
		return 0;
	if (code == ESLURM_JOB_PENDING || code == ESLURM_ALREADY_DONE || code == ESLURM_INVALID_JOB_ID)
		return hvd_err_set(err, HVD_E_NOENT, "Slurm: %s", slurm_strerror(code));
	hvd_err_set(err, HVD_E_FAILED, "Slurm refuses: %s", slurm_strerror(code));
	if (code == ESLURM_DISABLED)
		hvd_err_hint(err, "was the job submitted with --no-requeue, or is its partition gone?");
	return -1;
}

/* -1 if Slurm does not know the node, or does not say. */
static long others_like(const char *name, const struct hvd_strv *excluded)
{
	node_info_msg_t *msg = NULL;
	long n;

	if (slurm_load_node((time_t)0, &msg, SHOW_ALL) != SLURM_SUCCESS)
		return -1;
	n = hvd_slurm_nodes_like(msg, name, excluded);
	slurm_free_node_info_msg(msg);
	return n;
}

/* May the job do without the node? */
static int dispensable(const struct hvd_slurm_rerun *rerun, const char *node, const struct hvd_strv *excluded,
		       struct hvd_err *err)
{
	long others;

	if (*rerun->required)
		return hvd_err_set(err, HVD_E_LIMIT, "the job requires certain nodes (%s)", rerun->required);
	if (*rerun->reservation)
		return hvd_err_set(err, HVD_E_LIMIT, "the job is in the reservation %s", rerun->reservation);
	others = others_like(node, excluded);
	if (others < 0)
		return hvd_err_set(err, HVD_E_LIMIT, "Slurm does not report which nodes are like it");
	if (others < (long)rerun->nodes)
		return hvd_err_set(err, HVD_E_LIMIT, "the job needs %u nodes, but only %ld like it would be left",
				   rerun->nodes, others);
	return 0;
}

/* Replace the job's list of excluded nodes. */
static int set_excluded(const struct hvd_slurm_rerun *rerun, char *list, struct hvd_err *err)
{
	job_array_resp_msg_t *answer = NULL;
	char name[sizeof(rerun->name)];
	job_desc_msg_t job;
	int code;

	memcpy(name, rerun->name, sizeof(name));
	slurm_init_job_desc_msg(&job);
	job.job_id_str = name;
	job.exc_nodes = list;
	code = slurm_update_job2(&job, &answer);
	code = outcome(code, answer);
	return code == 0 ? 0 : hvd_err_set(err, HVD_E_FAILED, "Slurm refuses: %s", slurm_strerror(code));
}

static void fail_all(const struct hvd_strv *nodes, const struct hvd_err *why, struct hvd_err *errs)
{
	for (size_t i = 0; i < nodes->n; i++)
		if (!errs[i].code)
			errs[i] = *why;
}

void hvd_slurm_exclude(const struct hvd_slurm_rerun *rerun, const struct hvd_strv *nodes, struct hvd_err *errs)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv excluded = {0};
	hvd_cleanup_free char *list = hvd_xstrdup(rerun->excluded);
	struct hvd_err why = {0};
	bool any = false;

	if (hvd_slurm_open(&why) < 0 ||
	    (*rerun->excluded && hvd_hostlist_expand(rerun->excluded, HVD_MAX_HOSTS, &excluded, &why) < 0)) {
		fail_all(nodes, &why, errs);
		return;
	}
	for (size_t i = 0; i < nodes->n; i++) {
		if (hvd_strv_has(&excluded, nodes->v[i]) || dispensable(rerun, nodes->v[i], &excluded, &errs[i]) != 0)
			continue;
		hvd_xappendf(&list, "%s%s", *list ? "," : "", nodes->v[i]);
		hvd_strv_add(&excluded, nodes->v[i]);
		any = true;
	}
	if (any && set_excluded(rerun, list, &why) != 0)
		fail_all(nodes, &why, errs);
}

#endif
