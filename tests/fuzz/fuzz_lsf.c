/* SPDX-License-Identifier: Apache-2.0 */
/* LSF's lists of hosts, its affinity file, what CSM's tools print, and an environment; the first byte says which. */
#include "fuzz.h"
#include "lib/base/size.h"
#include "lib/base/strv.h"
#include "lsf/csm.h"
#include "lsf/lists.h"
#include "lsf/lsf.h"

static void check(const struct hvd_alloc *a)
{
	int sum = 0;

	for (int i = 0; i < a->n_hosts; i++) {
		const char *name = a->hosts[i].name;

		if (a->hosts[i].slots < 0 || name[0] == '-' || name[0] == '\0' || strpbrk(name, " \t\n/;'\"$`"))
			abort();
		if (hvd_alloc_find(a, name) != i)
			abort();
		sum += a->hosts[i].slots;
	}
	if (sum != a->slots || sum > HVD_MAX_RANKS)
		abort();
}

static void affinity(const char *text, size_t len)
{
	struct hvd_lsf facts = {.n_hosts = 2};
	struct hvd_alloc a = {0};

	facts.hosts = calloc(2, sizeof(*facts.hosts));
	if (!facts.hosts || hvd_alloc_from_hosts(&a, "a,b", 0, NULL) != 0)
		abort();
	if (hvd_lsf_parse_affinity(facts.hosts, &a, text, len, NULL) != 0 &&
	    facts.hosts[0].cpus.n + facts.hosts[1].cpus.n > 0)
		abort();
	for (int i = 0; i < 2; i++)
		for (size_t k = 0; k < facts.hosts[i].cpus.n; k++) {
			const char *cpus = facts.hosts[i].cpus.v[k];

			if (cpus[strspn(cpus, "0123456789,")] || cpus[0] == ',' || cpus[0] == '\0' ||
			    strstr(cpus, ",,"))
				abort();
		}
	hvd_alloc_clear(&a);
	hvd_lsf_clear(&facts);
}

static void nodes(const char *text, size_t len)
{
	struct hvd_lsf_host hosts[2] = {{.cores = -1}, {.cores = -1}};
	struct hvd_alloc a;

	if (hvd_alloc_from_hosts(&a, "a,b", 0, NULL) != 0)
		abort();
	if (hvd_csm_parse_nodes(hosts, &a, 1, text, len, NULL) == 0)
		for (int i = 0; i < 2; i++)
			if (hosts[i].cores == 0 || (hosts[i].cores > 0 && (hosts[i].gpus < 0 || hosts[i].sockets < 0)))
				abort();
	hvd_alloc_clear(&a);
}

/* One variable a line. None of them names a file, and CSM's tools are nowhere. */
static void environment(char *text)
{
	const struct hvd_alloc_lsf_opts opts = {.jsrun = text[0] == 'j', .deadline = 1};
	struct hvd_strv env = {0};
	struct hvd_lsf facts;
	struct hvd_alloc a;
	char *save = NULL;

	hvd_strv_add(&env, "LSB_JOBID=1");
	hvd_strv_add(&env, "CSM_ALLOCATION_ID=");
	hvd_strv_add(&env, "LSB_DJOB_HOSTFILE=");
	hvd_strv_add(&env, "LSB_AFFINITY_HOSTFILE=");
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		hvd_strv_add(&env, line);
	if (hvd_alloc_from_lsf(&a, &facts, env.v, &opts, NULL) == 0) {
		check(&a);
		if (facts.n_hosts != a.n_hosts)
			abort();
	} else if (a.n_hosts || facts.n_hosts) {
		abort();
	}
	hvd_alloc_clear(&a);
	hvd_lsf_clear(&facts);
	hvd_strv_free(&env);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hvd_lsf facts = {0};
	struct hvd_alloc a = {0};
	char *text;
	int gpus;

	if (size < 1)
		return 0;
	text = fuzz_text(data + 1, size - 1);
	switch (data[0] % 6) {
	case 0:
		if (hvd_lsf_parse_mcpu(&a, text, NULL) == 0)
			check(&a);
		break;
	case 1:
		if (hvd_lsf_parse_names(&a, text, size - 1, NULL) == 0)
			check(&a);
		break;
	case 2:
		affinity(text, size - 1);
		break;
	case 3:
		if (hvd_csm_parse_job(&a, &facts, &gpus, text, size - 1, NULL) == 0) {
			check(&a);
			if (a.slots != a.n_hosts || facts.isolated < 0 || facts.smt < 0)
				abort();
		}
		hvd_lsf_clear(&facts);
		break;
	case 4:
		nodes(text, size - 1);
		break;
	default:
		environment(text);
		break;
	}
	hvd_alloc_clear(&a);
	free(text);
	return 0;
}
