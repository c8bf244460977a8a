/* SPDX-License-Identifier: Apache-2.0 */
/* slot_wait.c - an elastic job waits for slots: how many it needs, how long it waits, and when waiting is useless. */
#include "machine_internal.h"

/* If a host is lost before the first generation, the others wait this long for its return; at most half of
 * --elastic-timeout. */
#define BACK_SECONDS 20.0

/* When the first generation begins without hosts that were lost. */
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
	hvd_err_hint(&why, "the messages above give the reason for each host");
	hvd_machine_finish(m, &why, 1);
	return true;
}

static void too_late(struct hvd_machine *m, int have, int need)
{
	struct hvd_err why = {0};

	if (have >= need)
		hvd_err_set(&why, HVD_E_FAILED, "no usable host has the training state");
	else
		hvd_err_set(&why, HVD_E_TIMEOUT,
			    "there were not enough slots for %g seconds: %d, but %d ranks are needed",
			    m->opts.elastic_timeout, have, need);
	if (have > 0 && have < need)
		hvd_err_hint(&why, "lower %s to %d, or raise --elastic-timeout to wait longer",
			     have >= m->opts.min_np ? "-np" : "--min-np", have);
	else
		hvd_err_hint(&why, "raise --elastic-timeout to wait longer");
	m->too_few = have < need && (m->generation > 0 || m->short_since);
	hvd_machine_finish(m, &why, 1);
}

void hvd_slots_wait(struct hvd_machine *m, int have, int need, hvd_time now)
{
	int promised = hvd_host_manager_promised(m, now);
	hvd_time end;

	/* Hosts whose agents are registering have enough slots, and the registration has a time limit of its own. */
	if (promised >= need)
		m->waiting_since = now;
	end = hvd_after(m->waiting_since, m->opts.elastic_timeout);
	if (now >= end) {
		too_late(m, have, need);
		return;
	}
	if (have < need && promised < need && !m->gen.warned_slots && (m->generation || m->n_hosts)) {
		const int most = promised > have ? promised : have;

		hvd_info(m->log, "%d slot%s, but %d ranks are needed: waiting for hosts", most, most == 1 ? "" : "s",
			 need);
		m->gen.warned_slots = true;
	}
	m->gen.enough_since = 0;
	hvd_machine_wake(m, end);
	hvd_machine_wake(m, hvd_host_manager_due(m, now));
	if (m->generation == 0 && now < without_lost(m))
		hvd_machine_wake(m, without_lost(m));
}
