/* SPDX-License-Identifier: Apache-2.0 */
/* slot_wait.c - an elastic job waits for slots: how many it needs, how long it waits, and when no wait can help. */
#include "machine_internal.h"

/* When a host was lost before the first generation, how long it may take to come back before the others begin; at most
 * half of the time for slots. */
#define BACK_SECONDS 20.0

/* When the first generation is to begin without hosts that were lost. */
static hvd_time without_lost(const struct hvd_machine *m)
{
	double half = m->opts.elastic_timeout / 2;

	return m->short_since ? hvd_after(m->short_since, half < BACK_SECONDS ? half : BACK_SECONDS) : HVD_FOREVER;
}

int hvd_slots_needed(const struct hvd_machine *m, hvd_time now)
{
	bool all = m->generation == 0 && m->opts.np > m->opts.min_np && now < without_lost(m);

	return all ? m->opts.np : m->opts.min_np;
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
	if (have > 0 && have < need)
		hvd_err_hint(&why, "%s=%d does with these, --elastic-timeout waits longer",
			     have >= m->opts.min_np ? "-np" : "--min-np", have);
	else
		hvd_err_hint(&why, "--elastic-timeout waits longer");
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
	if (m->generation == 0 && now < without_lost(m))
		hvd_machine_wake(m, without_lost(m));
}
