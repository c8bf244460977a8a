/* SPDX-License-Identifier: Apache-2.0 */
#include "hang_watch.h"

#include "lib/base/strv.h"

#include <stdlib.h>

void hvd_hang_describe(const struct hvd_stall *stall, struct hvd_err *err)
{
	struct hvd_strv silent = {0};
	char *names;

	for (size_t i = 0; i < stall->n; i++)
		if (!stall->hosts[i].answers)
			hvd_strv_add(&silent, stall->hosts[i].name);
	names = hvd_strv_join(&silent, ", ");
	hvd_err_set(err, HVD_E_TIMEOUT, "no rank has made progress for %.0f s%s%s", stall->seconds,
		    silent.n == 0   ? ""
		    : silent.n == 1 ? ", and this host does not answer: "
				    : ", and these hosts do not answer: ",
		    names);
	hvd_err_hint(err, "--hang-timeout says how long is too long; hvdrun --stacks shows where the ranks are");
	free(names);
	hvd_strv_free(&silent);
}

void hvd_hang_report(const struct hvd_stall *stall, const struct hvd_launch_spec *spec, const struct hvd_log *log,
		     hvd_hang_end_fn *end, void *arg)
{
	struct hvd_err why = {0};

	hvd_hang_describe(stall, &why);
	if (spec->hang.action == HVD_HANG_REPORT) {
		hvd_warn(log, "%s", why.msg);
		hvd_info(log, "%s", why.hint);
		return;
	}
	end(&why, spec->hang.action == HVD_HANG_REQUEUE, arg);
}
