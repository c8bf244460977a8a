/* SPDX-License-Identifier: Apache-2.0 */
/* csm_query.c - runs CSM's tools. */
#include "csm.h"

#include "lib/base/strv.h"
#include "lib/base/xalloc.h"
#include "lib/process/capture.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TOOLS   "/opt/ibm/csm/bin"
#define MAX_OUT (16u << 20)
/* Hosts in one call: their names stay far below the limit on a command line. */
#define NAMES_AT_ONCE 128

/* Set an error with the first line of what the tool printed: it writes errors to stdout too. */
static int failed(const char *tool, const char *text, int status, struct hvd_err *err)
{
	char how[64];

	hvd_status_text(status, how, sizeof(how));
	return hvd_err_set(err, HVD_E_FAILED, "%s: %s%s%.*s", tool, how, *text ? ": " : "",
			   strcspn(text, "\n") < 300 ? (int)strcspn(text, "\n") : 300, text);
}

/* The output of `tool option value`. The caller frees it; NULL with err set. */
static char *ask(const char *tool, const char *option, const char *value, char *const *envp, hvd_time deadline,
		 size_t *len, struct hvd_err *err)
{
	const char *const argv[] = {tool, option, value, NULL};
	struct hvd_spawn spawn = {.path = tool, .argv = (char *const *)argv, .envp = envp};
	char *beside = NULL, *text;
	struct hvd_err why = {0};
	int status = 0;

	text = hvd_capture(&spawn, MAX_OUT, deadline, len, &status, &why);
	if (!text && why.code == HVD_E_SYS) {
		beside = hvd_xasprintf("%s/%s", TOOLS, tool);
		if (access(beside, X_OK) == 0) {
			spawn.path = beside;
			text = hvd_capture(&spawn, MAX_OUT, deadline, len, &status, &why);
		}
		free(beside);
	}
	if (!text) {
		if (err)
			*err = why;
		return NULL;
	}
	/* Some releases end with a failure when they find nothing, but print an answer. */
	if (status == 0 || strstr(text, "Total_Records: 0"))
		return text;
	failed(tool, text, status, err);
	free(text);
	return NULL;
}

int hvd_csm_query_job(struct hvd_csm_job *out, const char *id, char *const *envp, hvd_time deadline,
		      struct hvd_err *err)
{
	static const char tool[] = "csm_allocation_query";
	size_t len;
	char *text;
	int rc;

	memset(out, 0, sizeof(*out));
	if (strlen(id) > 19 || strspn(id, "0123456789") != strlen(id))
		return hvd_err_set(err, HVD_E_PROTO, "CSM_ALLOCATION_ID is '%.40s', not a number", id);
	text = ask(tool, "-a", id, envp, deadline, &len, err);
	if (!text)
		return -1;
	rc = hvd_csm_parse_job(out, text, len, err);
	free(text);
	return rc == 0 ? 0 : hvd_err_prefix(err, "%s -a %s", tool, id);
}

int hvd_csm_query_nodes(struct hvd_lsf_host *hosts, const struct hvd_alloc *a, int isolated, char *const *envp,
			hvd_time deadline, struct hvd_err *err)
{
	static const char tool[] = "csm_node_attributes_query";

	for (int i = 0; i < a->n_hosts;) {
		char *names = hvd_xstrdup(a->hosts[i++].name), *text;
		size_t len;
		int rc;

		for (; i < a->n_hosts && i % NAMES_AT_ONCE != 0; i++)
			hvd_xappendf(&names, ",%s", a->hosts[i].name);
		text = ask(tool, "-n", names, envp, deadline, &len, err);
		free(names);
		if (!text)
			return -1;
		rc = hvd_csm_parse_nodes(hosts, a, isolated, text, len, err);
		free(text);
		if (rc != 0)
			return hvd_err_prefix(err, "%s", tool);
	}
	for (int i = 0; i < a->n_hosts; i++)
		if (hosts[i].cores < 0)
			return hvd_err_set(err, HVD_E_NOENT, "%s: CSM has no record of %.80s", tool, a->hosts[i].name);
	return 0;
}
