/* SPDX-License-Identifier: Apache-2.0 */
/* slot_wait.c - an elastic job waits for slots: how many it needs, how long it waits, and when no wait can help. */
#include "machine_internal.h"

int hvd_slots_needed(const struct hvd_machine *m)
{
	return m->generation || m->opts.np < m->opts.min_np ? m->opts.min_np : m->opts.np;
}

bool hvd_slots_none_came(struct hvd_machine *m)
{
	struct hvd_err why = {0};

	if (m->generation > 0 || !hvd_host_manager_none_came(m))
		return false;
	hvd_err_set(&why, HVD_E_FAILED, "none of the hosts can be used");
	hvd_err_hint(&why, "what was said of each of them above tells why");
	hvd_machine_finish(m, &why, 1);
	return true;
}

static void too_late(struct hvd_machine *m, int have, int need)
{
	struct hvd_err why = {0};

	if (have >= need)
		hvd_err_set(&why, HVD_E_FAILED, "no host that may be used has the state of the training");
	else
		hvd_err_set(&why, HVD_E_TIMEOUT,
			    "there were not enough slots for %g seconds: %d, and %d ranks are needed",
			    m->opts.elastic_timeout, have, need);
	hvd_err_hint(&why, "--min-np goes on with fewer, --elastic-timeout waits longer");
	hvd_machine_finish(m, &why, 1);
}

void hvd_slots_wait(struct hvd_machine *m, int have, int need, hvd_time now)
{
	int promised = hvd_host_manager_promised(m, now);
	hvd_time end;

	/* There are slots enough on hosts that are coming, and these have a time limit of their own. */
	if (promised >= need)
		m->waiting_since = now;
	end = hvd_after(m->waiting_since, m->opts.elastic_timeout);
	if (now >= end) {
		too_late(m, have, need);
		return;
	}
	if (have < need && promised < need && !m->gen.warned_slots && (m->generation || m->n_hosts)) {
		hvd_info(m->log, "%d slots, and %d ranks are needed: waiting for hosts",
			 promised > have ? promised : have, need);
		m->gen.warned_slots = true;
	}
	m->gen.enough_since = 0;
	hvd_machine_wake(m, end);
	hvd_machine_wake(m, hvd_host_manager_due(m, now));
}
