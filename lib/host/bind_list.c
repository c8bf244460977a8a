/* SPDX-License-Identifier: Apache-2.0 */
/* bind_list.c - reads a binding that another program, such as LSF, has decided. */
#include "bind.h"

#include "lib/base/xalloc.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Read one list, "0,1,4", and move *p behind it. */
static bool one_list(const char **p, cpu_set_t *set)
{
	CPU_ZERO(set);
	for (;;) {
		char *end;
		unsigned long cpu;

		if (**p < '0' || **p > '9')
			return false;
		cpu = strtoul(*p, &end, 10);
		if (cpu >= CPU_SETSIZE)
			return false;
		CPU_SET(cpu, set);
		*p = end;
		if (*end != ',')
			return true;
		(*p)++;
	}
}

/* May this process run on all of the sets? Only an attempt shows it: the kernel may allow CPUs that are not in the
 * present affinity mask. */
static bool usable(const struct hvd_binding *b)
{
	cpu_set_t before;
	bool fine = sched_getaffinity(0, sizeof(before), &before) == 0;

	for (int i = 0; fine && i < b->n; i++)
		fine = sched_setaffinity(0, sizeof(b->sets[i]), &b->sets[i]) == 0;
	sched_setaffinity(0, sizeof(before), &before);
	return fine;
}

int hvd_bind_listed(struct hvd_binding *out, int n, const char *lists, struct hvd_err *err)
{
	int i = 0;

	memset(out, 0, sizeof(*out));
	out->why = "the list of CPUs cannot be used";
	if (n < 1)
		return hvd_err_set(err, HVD_E_USAGE, "%d is not a valid number of local ranks", n);
	out->sets = hvd_xcalloc((size_t)n, sizeof(*out->sets));
	for (const char *p = lists; i < n && one_list(&p, &out->sets[i]); p++) {
		i++;
		if (*p != ':') {
			lists = *p == '\0' ? "" : lists;
			break;
		}
	}
	out->n = n;
	if (i == n && *lists == '\0' && usable(out)) {
		out->why = NULL;
		return 0;
	}
	free(out->sets);
	out->sets = NULL;
	out->n = 0;
	if (i != n || *lists != '\0')
		return hvd_err_set(err, HVD_E_PROTO, "this is not a list of CPUs of %d ranks: %.80s", n, lists);
	return hvd_err_set(err, HVD_E_SYS, "some of the CPUs in the list may not be used");
}
