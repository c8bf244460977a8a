/* SPDX-License-Identifier: Apache-2.0 */
#include "lsf.h"

#include "csm.h"
#include "lib/base/cleanup.h"
#include "lib/base/file.h"
#include "lib/base/size.h"
#include "lib/base/xalloc.h"
#include "lib/host/gpu.h"
#include "lists.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FILE    (16u << 20)
#define CSM_SECONDS 30 /* for all calls of CSM's tools together */

bool hvd_alloc_in_lsf(char *const *envp)
{
	return hvd_envp_value(envp, "LSB_JOBID") &&
	       (hvd_envp_value(envp, "CSM_ALLOCATION_ID") || hvd_envp_value(envp, "LSB_DJOB_HOSTFILE") ||
		hvd_envp_value(envp, "LSB_MCPU_HOSTS") || hvd_envp_value(envp, "LSB_HOSTS"));
}

char *hvd_lsf_job_name(char *const *envp)
{
	const char *job = hvd_envp_value(envp, "LSB_JOBID"),
		   *index = hvd_envp_value(envp, "LSB_JOBINDEX"); /* "0" for other jobs */

	return index && strcmp(index, "0") != 0 ? hvd_xasprintf("%s[%s]", job, index) : hvd_xstrdup(job);
}

bool hvd_lsf_in_jsrun(char *const *envp)
{
	return hvd_envp_value(envp, "JSM_NAMESPACE_RANK") != NULL;
}

void hvd_lsf_clear(struct hvd_lsf *facts)
{
	if (!facts)
		return;
	for (int i = 0; i < facts->n_hosts; i++)
		hvd_strv_free(&facts->hosts[i].cpus);
	free(facts->hosts);
	free(facts->launch_host);
	hvd_strv_free(&facts->notes);
	memset(facts, 0, sizeof(*facts));
}

static int from_hostfile(struct hvd_alloc *out, const char *path, struct hvd_err *err)
{
	size_t len;
	hvd_cleanup_free char *text = hvd_read_file(path, MAX_FILE, "the file", &len, err);

	return text ? hvd_lsf_parse_names(out, text, len, err) : -1;
}

static int from_hosts(struct hvd_alloc *out, const char *text, struct hvd_err *err)
{
	return hvd_lsf_parse_names(out, text, strlen(text), err);
}

/* ---- hosts ---- */

struct finder {
	char *const *envp;
	const struct hvd_alloc_lsf_opts *opts;
	struct hvd_lsf *facts;
	const char *hosts_from, *slots_from; /* for messages */
	int csm_gpus;                        /* GPUs of each host by csm_allocation_query; -1: unknown */
	hvd_time deadline;
};

/* Read the first of LSF's lists that can be used. */
static int from_lists(struct hvd_alloc *out, struct finder *f, struct hvd_err *err)
{
	static const struct {
		const char *name;
		int (*read)(struct hvd_alloc *out, const char *value, struct hvd_err *err);
	} sources[] = {
		{"LSB_DJOB_HOSTFILE", from_hostfile},
		{"LSB_MCPU_HOSTS", hvd_lsf_parse_mcpu},
		{"LSB_HOSTS", from_hosts},
	};

	for (size_t i = 0; i < sizeof(sources) / sizeof(*sources); i++) {
		const char *value = hvd_envp_value(f->envp, sources[i].name);
		struct hvd_err why = {0};

		if (!value)
			continue;
		if (sources[i].read(out, value, &why) == 0) {
			f->hosts_from = sources[i].name;
			return 0;
		}
		hvd_strv_addf(&f->facts->notes, "%s cannot be used: %s", sources[i].name, why.msg);
	}
	hvd_err_set(err, HVD_E_NOENT, "LSF names no host of job %.20s", hvd_envp_value(f->envp, "LSB_JOBID"));
	if (f->facts->notes.n)
		hvd_err_hint(err, "%s", f->facts->notes.v[f->facts->notes.n - 1]);
	else
		hvd_err_hint(err, "LSB_DJOB_HOSTFILE, LSB_MCPU_HOSTS and LSB_HOSTS are all empty; is this the "
				  "environment that the job was given?");
	return -1;
}

static void set_slots(struct hvd_alloc *a, int host, int slots)
{
	a->slots += slots - a->hosts[host].slots;
	a->hosts[host].slots = slots;
}

/* Remove the launch node from the allocation. LSF's lists have it first, with one slot. */
static void drop_launch_host(struct hvd_alloc *a, struct finder *f)
{
	if (!f->facts->csm && !(f->opts && f->opts->jsrun))
		return;
	if (a->n_hosts < 2 || a->hosts[0].slots != 1)
		return;
	set_slots(a, 0, 0);
	f->facts->launch_host = a->hosts[0].name;
	memmove(a->hosts, a->hosts + 1, (size_t)--a->n_hosts * sizeof(*a->hosts));
	f->facts->csm = true;
}

static struct hvd_lsf_host unknown_host(void)
{
	return (struct hvd_lsf_host){.tasks = -1, .gpus = -1, .cores = -1, .sockets = -1};
}

static void make_facts(struct hvd_lsf *facts, const struct hvd_alloc *a)
{
	facts->hosts = hvd_xcalloc((size_t)a->n_hosts, sizeof(*facts->hosts));
	facts->n_hosts = a->n_hosts;
	for (int i = 0; i < a->n_hosts; i++)
		facts->hosts[i] = unknown_host();
}

/* Take the hosts from CSM, and the number of tasks on each from LSF's lists. */
static int from_csm(struct hvd_alloc *out, struct finder *f, const char *id, struct hvd_err *err)
{
	HVD_CLEANUP(hvd_lsf_clear) struct hvd_lsf ignored = {0};
	struct finder lists = {.envp = f->envp, .facts = &ignored};
	HVD_CLEANUP(hvd_alloc_clear) struct hvd_alloc tasks = {0};
	hvd_cleanup_free int *at = NULL;

	if (hvd_csm_query_job(out, f->facts, &f->csm_gpus, id, f->envp, f->deadline, err) != 0)
		return -1;
	f->hosts_from = "csm_allocation_query";
	make_facts(f->facts, out);
	if (from_lists(&tasks, &lists, NULL) != 0)
		return 0;
	at = hvd_alloc_find_all(out, &tasks);
	for (int i = 0; i < tasks.n_hosts; i++)
		if (at[i] >= 0)
			f->facts->hosts[at[i]].tasks = tasks.hosts[i].slots;
	return 0;
}

static int find_hosts(struct hvd_alloc *out, struct finder *f, struct hvd_err *err)
{
	const char *id = hvd_envp_value(f->envp, "CSM_ALLOCATION_ID");
	struct hvd_err why = {0};

	f->facts->csm = id != NULL;
	if (id && from_csm(out, f, id, &why) == 0)
		return 0;
	if (id)
		hvd_strv_addf(&f->facts->notes, "CSM does not report which hosts the job has, LSF's list is used: %s",
			      why.msg);
	if (from_lists(out, f, err) != 0)
		return -1;
	drop_launch_host(out, f);
	make_facts(f->facts, out);
	for (int i = 0; i < out->n_hosts; i++)
		f->facts->hosts[i].tasks = out->hosts[i].slots;
	return 0;
}

/* ---- facts about the hosts ---- */

static void ask_csm(struct hvd_alloc *a, struct finder *f)
{
	struct hvd_err why = {0};

	if (hvd_csm_query_nodes(f->facts->hosts, a, f->facts->isolated, f->envp, f->deadline, &why) != 0) {
		for (int i = 0; i < a->n_hosts; i++)
			f->facts->hosts[i].cores = f->facts->hosts[i].sockets = f->facts->hosts[i].gpus = -1;
		hvd_strv_addf(&f->facts->notes, "CSM does not report the GPUs and cores of the hosts: %s", why.msg);
	}
	/* The job may have fewer GPUs than the host. */
	for (int i = 0; i < a->n_hosts && f->csm_gpus > 0; i++)
		if (f->facts->hosts[i].gpus < 0 || f->facts->hosts[i].gpus > f->csm_gpus)
			f->facts->hosts[i].gpus = f->csm_gpus;
}

/* Count the job's GPUs. The list in the environment gives the number on this host; for other hosts it must be
 * guessed. `bsub -gpu num=N` means N GPUs on each host, unless site or user have made it N for each task; then the
 * number here is a multiple of the number of tasks here. When all hosts have as many tasks, both mean the same.
 * Otherwise the smaller number is taken, because a rank too many would have no GPU. */
static void count_gpus(const struct hvd_alloc *a, struct finder *f)
{
	int here = hvd_gpu_visible(f->envp);
	int tasks = f->facts->hosts[0].tasks;
	bool uneven = false;

	if (here < 1)
		return;
	for (int i = 1; i < a->n_hosts; i++)
		uneven |= f->facts->hosts[i].tasks != tasks;
	for (int i = 0; i < a->n_hosts; i++) {
		long long by_task = (long long)here / tasks * f->facts->hosts[i].tasks;

		f->facts->hosts[i].gpus = here % tasks == 0 && by_task < here ? (int)by_task : here;
	}
	if (uneven)
		hvd_strv_addf(&f->facts->notes,
			      "the job has %d GPUs on this host, but LSF does not report those of other hosts; set "
			      "--slots-per-host if the guess is wrong",
			      here);
}

static void read_affinity(const struct hvd_alloc *a, struct finder *f)
{
	const char *path = hvd_envp_value(f->envp, "LSB_AFFINITY_HOSTFILE");
	hvd_cleanup_free char *text = NULL;
	struct hvd_err why = {0};
	size_t len;

	if (!path)
		return;
	text = hvd_read_file(path, MAX_FILE, "the file", &len, &why);
	if (!text || hvd_lsf_parse_affinity(f->facts->hosts, a, text, len, &why) != 0)
		hvd_strv_addf(&f->facts->notes, "LSB_AFFINITY_HOSTFILE cannot be used, ranks are bound without it: %s",
			      why.msg);
}

/* ---- slots ---- */

/* Make the number of slots that of GPUs. False, with nothing changed, unless the number is known for all hosts and some
 * host has a GPU. */
static bool slots_by_gpus(struct hvd_alloc *a, struct finder *f)
{
	int sum = 0;

	for (int i = 0; i < a->n_hosts; i++) {
		if (f->facts->hosts[i].gpus < 0 || f->facts->hosts[i].gpus > HVD_MAX_RANKS - sum)
			return false;
		sum += f->facts->hosts[i].gpus;
	}
	for (int i = 0; i < a->n_hosts && sum > 0; i++) {
		if (f->facts->hosts[i].gpus == 0)
			hvd_strv_addf(&f->facts->notes, "host %s has no GPU, unlike other hosts, and gets no rank",
				      a->hosts[i].name);
		set_slots(a, i, f->facts->hosts[i].gpus);
	}
	f->slots_from = f->facts->csm ? "GPUs that CSM knows" : "GPUs in the environment";
	return sum > 0;
}

static int find_slots(struct hvd_alloc *a, struct finder *f, struct hvd_err *err)
{
	int each = f->opts ? f->opts->slots_per_host : 0;

	if (each > 0) {
		if (each > HVD_MAX_RANKS / a->n_hosts)
			return hvd_err_set(err, HVD_E_LIMIT, "%d slots on each of %d hosts are not possible", each,
					   a->n_hosts);
		for (int i = 0; i < a->n_hosts; i++)
			set_slots(a, i, each);
		f->slots_from = "slots per host as asked for";
		return 0;
	}
	if (slots_by_gpus(a, f))
		return 0;
	f->slots_from = "a slot per task";
	for (int i = 0; i < a->n_hosts; i++)
		set_slots(a, i, f->facts->hosts[i].tasks > 0 ? f->facts->hosts[i].tasks : 1);
	return 0;
}

static int find(struct hvd_alloc *out, struct finder *f, struct hvd_err *err)
{
	const struct hvd_alloc_lsf_opts *opts = f->opts;

	f->csm_gpus = -1;
	f->deadline = opts && opts->deadline ? opts->deadline : hvd_deadline_in(CSM_SECONDS);
	if (find_hosts(out, f, err) != 0)
		return -1;
	if (hvd_envp_value(f->envp, "CSM_ALLOCATION_ID"))
		ask_csm(out, f);
	else if (!f->facts->csm)
		count_gpus(out, f);
	read_affinity(out, f);
	if (find_slots(out, f, err) != 0)
		return -1;
	snprintf(out->source, sizeof(out->source), "LSF job %.20s: %s, %s", hvd_envp_value(f->envp, "LSB_JOBID"),
		 f->hosts_from, f->slots_from);
	return 0;
}

int hvd_alloc_from_lsf(struct hvd_alloc *out, struct hvd_lsf *facts, char *const *envp,
		       const struct hvd_alloc_lsf_opts *opts, struct hvd_err *err)
{
	struct hvd_lsf own = {0}, *know = facts ? facts : &own;
	struct finder f = {.envp = envp, .opts = opts, .facts = know};
	int rc;

	memset(out, 0, sizeof(*out));
	memset(know, 0, sizeof(*know));
	if (!hvd_alloc_in_lsf(envp))
		return hvd_err_set(err, HVD_E_NOENT, "there is no LSF job in the environment");
	if (hvd_lsf_in_jsrun(envp)) {
		hvd_err_set(err, HVD_E_USAGE, "this is a task of jsrun already (JSM_NAMESPACE_RANK is %.20s)",
			    hvd_envp_value(envp, "JSM_NAMESPACE_RANK"));
		return hvd_err_hint(err, "run hvdrun in the job script itself: it starts jsrun");
	}
	rc = find(out, &f, err);
	if (rc != 0)
		hvd_alloc_clear(out);
	if (rc != 0 || !facts)
		hvd_lsf_clear(know);
	return rc;
}

void hvd_lsf_select(struct hvd_lsf *facts, const struct hvd_alloc *from, const struct hvd_alloc *to)
{
	struct hvd_lsf_host *hosts = hvd_xcalloc((size_t)to->n_hosts, sizeof(*hosts));
	hvd_cleanup_free int *at = hvd_alloc_find_all(from, to);

	for (int i = 0; i < to->n_hosts; i++) {
		hosts[i] = unknown_host();
		if (at[i] < 0 || at[i] >= facts->n_hosts)
			continue;
		hosts[i] = facts->hosts[at[i]];
		facts->hosts[at[i]].cpus = (struct hvd_strv){0};
	}
	for (int i = 0; i < facts->n_hosts; i++)
		hvd_strv_free(&facts->hosts[i].cpus);
	free(facts->hosts);
	facts->hosts = hosts;
	facts->n_hosts = to->n_hosts;
}

char *hvd_lsf_cpus(const struct hvd_lsf_host *host, int ranks)
{
	size_t tasks = host->cpus.n, len = 0, task = 0;
	char *text = NULL;
	FILE *f;

	if (ranks < 1 || tasks < (size_t)ranks || !(f = open_memstream(&text, &len)))
		return NULL;
	for (size_t rank = 0; rank < (size_t)ranks; rank++) {
		fputs(rank ? ":" : "", f);
		for (size_t end = (rank + 1) * tasks / (size_t)ranks; task < end; task++)
			fprintf(f, "%s%s", host->cpus.v[task], task + 1 < end ? "," : "");
	}
	if (fclose(f) == 0)
		return text;
	free(text);
	return NULL;
}
