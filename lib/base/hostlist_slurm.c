/* SPDX-License-Identifier: Apache-2.0 */
#include "hostlist.h"

#ifdef HVD_WITH_SLURM

#include "xalloc.h"

#include <slurm/slurm.h>
#include <stdlib.h>
#include <string.h>

/* A pointer to a struct that has had a typedef with and without the star. */
#define HOSTLIST __typeof__(slurm_hostlist_create(NULL))

int hvd_hostlist_expand(const char *expr, size_t max_hosts, struct hvd_strv *names, struct hvd_err *err)
{
	struct hvd_strv found = {0};
	size_t count;
	HOSTLIST hl;
	char *name;

	if (hvd_hostlist_check(expr, max_hosts, &count, err) < 0)
		return -1;
	hl = slurm_hostlist_create(expr);
	if (!hl)
		return hvd_err_set(err, HVD_E_PROTO, "Slurm does not understand the list of hosts '%.200s'", expr);
	while (found.n <= count && (name = slurm_hostlist_shift(hl))) {
		hvd_strv_add(&found, name);
		free(name);
	}
	slurm_hostlist_destroy(hl);
	if (found.n != count) {
		hvd_err_set(err, HVD_E_PROTO, "Slurm reads %zu hosts in '%.200s' instead of %zu", found.n, expr, count);
		hvd_strv_free(&found);
		return -1;
	}
	hvd_strv_add_all(names, found.v);
	hvd_strv_free(&found);
	return 0;
}

char *hvd_hostlist_compress(char *const *names, size_t n)
{
	HOSTLIST hl = slurm_hostlist_create(NULL);
	size_t room = 256;
	char *text;

	for (size_t i = 0; hl && i < n; i++) {
		slurm_hostlist_push_host(hl, names[i]);
		room += strlen(names[i]) + 1;
	}
	text = hvd_xcalloc(room, 1);
	/* No expression is longer than its names joined; the brackets of a single range are in the spare room. */
	if (hl && slurm_hostlist_ranged_string(hl, room, text) < 0)
		memcpy(text + room - 4, "...", 4);
	if (hl)
		slurm_hostlist_destroy(hl);
	return text;
}

#endif
