/* SPDX-License-Identifier: Apache-2.0 */
#include "lsf.h"

#include "bind.h"
#include "lists.h"
#include "readfile.h"
#include "xalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FILE (16u << 20)

static const char *look(char *const *envp, const char *name)
{
	const char *value = hvd_envp_get(envp, name);

	return value && *value ? value : NULL;
}

bool hvd_alloc_in_lsf(char *const *envp)
{
	return look(envp, "LSB_JOBID") && (look(envp, "CSM_ALLOCATION_ID") || look(envp, "LSB_DJOB_HOSTFILE") ||
					   look(envp, "LSB_MCPU_HOSTS") || look(envp, "LSB_HOSTS"));
}

bool hvd_lsf_in_jsrun(char *const *envp)
{
	return look(envp, "JSM_NAMESPACE_RANK") != NULL;
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
	char *text = hvd_read_file(path, MAX_FILE, "the file", &len, err);
	int rc = text ? hvd_lsf_parse_names(out, text, len, err) : -1;

	free(text);
	return rc;
}

static int from_hosts(struct hvd_alloc *out, const char *text, struct hvd_err *err)
{
	return hvd_lsf_parse_names(out, text, strlen(text), err);
}

/* The first of LSF's lists that can be used. Sets *from to its variable. */
static int find_hosts(struct hvd_alloc *out, struct hvd_lsf *facts, char *const *envp, const char **from,
		      struct hvd_err *err)
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
		const char *value = look(envp, sources[i].name);
		struct hvd_err why = {0};

		if (!value)
			continue;
		*from = sources[i].name;
		if (sources[i].read(out, value, &why) == 0)
			return 0;
		hvd_strv_addf(&facts->notes, "%s cannot be used: %s", sources[i].name, why.msg);
	}
	hvd_err_set(err, HVD_E_NOENT, "LSF says of no host that it is part of job %.20s", look(envp, "LSB_JOBID"));
	if (facts->notes.n)
		hvd_err_hint(err, "%s", facts->notes.v[0]);
	else
		hvd_err_hint(err, "LSB_DJOB_HOSTFILE, LSB_MCPU_HOSTS and LSB_HOSTS are all empty; list hosts with -H");
	return -1;
}

static void set_slots(struct hvd_alloc *a, int host, int slots)
{
	a->slots += slots - a->hosts[host].slots;
	a->hosts[host].slots = slots;
}

/* What decides the slots, for messages. */
static const char *find_slots(struct hvd_alloc *a, const struct hvd_lsf *facts, int slots_per_host, const char *from)
{
	(void)facts;
	if (slots_per_host <= 0)
		return from;
	for (int i = 0; i < a->n_hosts; i++)
		set_slots(a, i, slots_per_host);
	return "slots per host as asked for";
}

int hvd_alloc_from_lsf(struct hvd_alloc *out, struct hvd_lsf *facts, char *const *envp,
		       const struct hvd_alloc_lsf_opts *opts, struct hvd_err *err)
{
	struct hvd_lsf own, *know = facts ? facts : &own;
	const char *from = NULL;
	int rc;

	memset(out, 0, sizeof(*out));
	memset(know, 0, sizeof(*know));
	if (!hvd_alloc_in_lsf(envp))
		return hvd_err_set(err, HVD_E_NOENT, "there is no LSF job in the environment");
	if (hvd_lsf_in_jsrun(envp)) {
		hvd_err_set(err, HVD_E_USAGE, "this is a task of jsrun already (JSM_NAMESPACE_RANK is %.20s)",
			    look(envp, "JSM_NAMESPACE_RANK"));
		return hvd_err_hint(err, "run hvdrun in the job script itself: it starts jsrun");
	}
	rc = find_hosts(out, know, envp, &from, err);
	if (rc == 0) {
		know->hosts = hvd_xcalloc((size_t)out->n_hosts, sizeof(*know->hosts));
		know->n_hosts = out->n_hosts;
		for (int i = 0; i < out->n_hosts; i++)
			know->hosts[i] = (struct hvd_lsf_host){
				.tasks = out->hosts[i].slots, .gpus = -1, .cores = -1, .sockets = -1};
		from = find_slots(out, know, opts ? opts->slots_per_host : 0, from);
		snprintf(out->source, sizeof(out->source), "LSF job %.20s: %s", look(envp, "LSB_JOBID"), from);
	}
	if (rc != 0 || !facts)
		hvd_lsf_clear(know);
	return rc;
}

void hvd_lsf_select(struct hvd_lsf *facts, const struct hvd_alloc *from, const struct hvd_alloc *to)
{
	struct hvd_lsf_host *hosts = hvd_xcalloc((size_t)to->n_hosts, sizeof(*hosts));

	for (int i = 0; i < to->n_hosts; i++) {
		int at = hvd_alloc_find(from, to->hosts[i].name);

		hosts[i] = (struct hvd_lsf_host){.tasks = -1, .gpus = -1, .cores = -1, .sockets = -1};
		if (at < 0 || at >= facts->n_hosts)
			continue;
		hosts[i] = facts->hosts[at];
		facts->hosts[at].cpus = (struct hvd_strv){0};
	}
	for (int i = 0; i < facts->n_hosts; i++)
		hvd_strv_free(&facts->hosts[i].cpus);
	free(facts->hosts);
	facts->hosts = hosts;
	facts->n_hosts = to->n_hosts;
}
