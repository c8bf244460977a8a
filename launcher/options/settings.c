/* SPDX-License-Identifier: Apache-2.0 */
#include "settings.h"

#include "lib/base/deadline.h"
#include "lib/base/key.h"
#include "lib/base/xalloc.h"
#include "lib/protocol/munge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define START_TIMEOUT 30 /* seconds, as horovodrun's */

double hvd_start_timeout(const struct hvd_options *o)
{
	if (o->start_timeout <= 0)
		return START_TIMEOUT;
	return o->start_timeout < HVD_MOST_SECONDS ? o->start_timeout : HVD_MOST_SECONDS;
}

void hvd_driver_opts_from(const struct hvd_options *o, struct hvd_driver_opts *opts)
{
	static const enum hvd_where where[] = {
		[HVD_RENDEZVOUS_AUTO] = HVD_WHERE_AUTO,
		[HVD_RENDEZVOUS_LAUNCH] = HVD_WHERE_LAUNCH,
		[HVD_RENDEZVOUS_BATCH] = HVD_WHERE_BATCH,
	};

	opts->start_timeout = hvd_start_timeout(o);
	opts->where = where[o->rendezvous];
	opts->mpi = hvd_options_mpi(o);
	opts->trace = o->trace;
	opts->progress = isatty(STDERR_FILENO) == 1;
	hvd_strv_add_all(&opts->nics, o->nics.v);
	hvd_options_tunables(o, &opts->env);
}

int hvd_identity_from(const struct hvd_options *o, struct hvd_identity *identity, char id_text[HVD_ID_TEXT],
		      struct hvd_err *err)
{
	char *path;
	int n;

	memset(identity, 0, sizeof(*identity));
	snprintf(id_text, HVD_ID_TEXT, "munge");
	if (!o->key_file)
		return hvd_munge_here(NULL, err);
	identity->kind = HVD_ID_KEY;
	/* The shims may run in another directory. */
	path = realpath(o->key_file, NULL);
	if (!path) {
		hvd_err_sys(err, "cannot find the key file %s", o->key_file);
		err->code = HVD_E_USAGE;
		return -1;
	}
	n = snprintf(id_text, HVD_ID_TEXT, "file:%s", path);
	free(path);
	if (n < 0 || (size_t)n >= HVD_ID_TEXT)
		return hvd_err_set(err, HVD_E_USAGE, "the path of the key file %s is too long", o->key_file);
	if (hvd_key_read_file(o->key_file, &identity->key, err) == 0)
		return 0;
	if (err)
		err->code = HVD_E_USAGE;
	return -1;
}
