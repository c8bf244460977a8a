/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of hosts, hostfiles and Slurm's environment; the first byte says which. */
#include "fuzz.h"
#include "lib/base/strv.h"
#include "slurm/alloc_slurm.h"

static void check(struct hvd_alloc *a)
{
	struct hvd_alloc some;
	int sum = 0;

	for (int i = 0; i < a->n_hosts; i++) {
		const char *name = a->hosts[i].name;

		if (a->hosts[i].slots < 0 || name[0] == '-' || name[0] == '\0' || strpbrk(name, " \t\n/;'\"$`"))
			abort();
		sum += a->hosts[i].slots;
	}
	if (sum != a->slots)
		abort();
	if (hvd_alloc_take(a, 3, &some, NULL) == 0 && some.slots != 3)
		abort();
	hvd_alloc_clear(&some);
	free(hvd_alloc_table(a, 5));
}

/* One variable a line, behind the two that make it a job; and then a heterogeneous one. */
static void from_environment(struct hvd_alloc *a, char *text)
{
	static const char *const het[] = {"SLURM_HET_SIZE=2", "SLURM_JOB_ID_HET_GROUP_0=1",
					  "SLURM_JOB_ID_HET_GROUP_1=2", "SLURM_JOB_NODELIST_HET_GROUP_0=n1",
					  "SLURM_JOB_NODELIST_HET_GROUP_1=n[2-3]"};
	struct hvd_strv env = {0};
	char *save = NULL;

	hvd_strv_add(&env, "SLURM_JOB_ID=1");
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		hvd_strv_add(&env, line);
	hvd_strv_add(&env, "SLURM_JOB_NODELIST=n[1-3]");
	if (hvd_alloc_from_slurm(a, env.v, 0, false, NULL) == 0)
		check(a);
	hvd_alloc_clear(a);
	for (size_t i = 0; i < sizeof(het) / sizeof(*het); i++)
		hvd_strv_add(&env, het[i]);
	if (hvd_alloc_from_het(a, env.v, 0, false, NULL) == 0)
		check(a);
	hvd_strv_free(&env);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hvd_alloc a = {0};
	char *text;

	if (size < 1)
		return 0;
	text = fuzz_text(data + 1, size - 1);
	switch (data[0] % 3) {
	case 0:
		if (hvd_alloc_from_hosts(&a, text, 0, NULL) == 0)
			check(&a);
		break;
	case 1:
		if (hvd_alloc_parse_hostfile(&a, text, size - 1, "fuzz", 2, NULL) == 0)
			check(&a);
		break;
	default:
		from_environment(&a, text);
		break;
	}
	hvd_alloc_clear(&a);
	free(text);
	return 0;
}
