/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slurm.h: a job that is requeued, and the nodes that it is then kept away from.
 */
#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"
#include "scontrol.h"
#include "slurm.h"
#include "slurm_command.h"
#include "squeue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REFUSED "Slurm refuses"

/* "incomplete": Slurm does nothing to a job that does not run any longer, so that of two processes of a job that ask for
 * the same, the later one has no effect, and a job that was cancelled stays so. */
int hvd_slurm_requeue(const struct hvd_slurm_rerun *rerun, bool ended, hvd_time deadline, struct hvd_err *err)
{
	const char *running[] = {"scontrol", "requeue", "incomplete", rerun->name, NULL};
	const char *any[] = {"scontrol", "requeue", rerun->name, NULL};
	struct hvd_err why = {0};
	hvd_cleanup_free char *text = hvd_slurm_command(ended ? any : running, REFUSED, deadline, &why);

	if (text)
		return 0;
	if (strstr(why.msg, "Job is pending execution"))
		why.code = HVD_E_NOENT;
	if (strstr(why.msg, "is presently disabled"))
		hvd_err_hint(&why, "was the job submitted with --no-requeue, or is its partition gone?");
	if (err)
		*err = why;
	return -1;
}

/* May the job do without the node? `nodes` is what scontrol prints of all nodes; NULL: it does not. */
static int dispensable(const struct hvd_slurm_rerun *rerun, const char *node, const struct hvd_strv *excluded,
		       const char *nodes, struct hvd_err *err)
{
	long others;

	if (*rerun->required)
		return hvd_err_set(err, HVD_E_LIMIT, "the job requires certain nodes (%s)", rerun->required);
	if (*rerun->reservation)
		return hvd_err_set(err, HVD_E_LIMIT, "the job is in the reservation %s", rerun->reservation);
	others = nodes ? hvd_scontrol_nodes_like(nodes, node, excluded) : -1;
	if (others < 0)
		return hvd_err_set(err, HVD_E_LIMIT, "Slurm does not report which nodes are like it");
	if (others < (long)rerun->nodes)
		return hvd_err_set(err, HVD_E_LIMIT, "the job needs %u nodes, but only %ld like it would be left",
				   (unsigned)rerun->nodes, others);
	return 0;
}

/* The list of nodes that the job is kept away from now. The caller frees it; NULL with err set. */
static char *ask_excluded(const struct hvd_slurm_rerun *rerun, hvd_time deadline, struct hvd_err *err)
{
	hvd_cleanup_free char *format = NULL, *which = NULL, *text = NULL;
	struct hvd_squeue_mark mark;
	char *list;

	if (hvd_squeue_mark_make(&mark, err) != 0)
		return NULL;
	format = hvd_xasprintf("--format=%%x%s", mark.text);
	which = hvd_xasprintf("--jobs=%s", rerun->name);
	text = hvd_slurm_command(
		(const char *[]){"squeue", "--noheader", "--local", "--all", "--states=all", which, format, NULL},
		"cannot ask Slurm for the job's nodes", deadline, err);
	if (!text)
		return NULL;
	list = hvd_squeue_field(text, &mark);
	if (!list)
		hvd_err_set(err, HVD_E_NOENT, "Slurm knows no job %s", rerun->name);
	return list;
}

static void fail_all(const struct hvd_strv *nodes, const struct hvd_err *why, struct hvd_err *errs)
{
	for (size_t i = 0; i < nodes->n; i++)
		errs[i] = *why;
}

char *hvd_slurm_excludable(const struct hvd_slurm_rerun *rerun, const struct hvd_strv *nodes, hvd_time deadline,
			   struct hvd_err *errs)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv excluded = {0};
	struct hvd_err why = {0};
	hvd_cleanup_free char *list = ask_excluded(rerun, deadline, &why), *all = NULL;
	bool any = false;

	if (!list || (*list && hvd_hostlist_expand(list, HVD_MAX_HOSTS, &excluded, &why) < 0)) {
		fail_all(nodes, &why, errs);
		return NULL;
	}
	all = hvd_slurm_command((const char *[]){"scontrol", "--all", "show", "nodes", NULL}, "nodes", deadline, NULL);
	for (size_t i = 0; i < nodes->n; i++) {
		if (hvd_strv_has(&excluded, nodes->v[i]) ||
		    dispensable(rerun, nodes->v[i], &excluded, all, &errs[i]) != 0)
			continue;
		hvd_xappendf(&list, "%s%s", *list ? "," : "", nodes->v[i]);
		hvd_strv_add(&excluded, nodes->v[i]);
		any = true;
	}
	return any ? hvd_take_ptr(&list) : NULL;
}

int hvd_slurm_exclude(const struct hvd_slurm_rerun *rerun, const char *list, hvd_time deadline, struct hvd_err *err)
{
	hvd_cleanup_free char *job = hvd_xasprintf("JobId=%s", rerun->name);
	hvd_cleanup_free char *nodes = hvd_xasprintf("ExcNodeList=%s", list);
	hvd_cleanup_free char *text =
		hvd_slurm_command((const char *[]){"scontrol", "update", job, nodes, NULL}, REFUSED, deadline, err);

	return text ? 0 : -1;
}
