/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages to the parent, and the answers that it owes.
 */
#include "upstream.h"

void hvd_upstream_expect(struct hvd_upstream *up)
{
	/* Over a shared connection there is no deadline: no other way leads to the root, and it ends when the root's host
	 * is lost. */
	if (up->owed > 0 && up->conn && !up->shared)
		hvd_rv_arm(up->rv, &up->timer, hvd_deadline_in(up->rv->cfg.parent_wait));
	else
		hvd_rv_timer_wheel_remove(&up->rv->wheel, &up->timer);
}

void hvd_upstream_owes(struct hvd_upstream *up, int more)
{
	bool owed = up->owed > 0;

	up->owed += (size_t)more;
	if (owed != (up->owed > 0))
		hvd_upstream_expect(up);
}

void hvd_upstream_send(struct hvd_upstream *up, const struct hvd_relay_msg *msg)
{
	if (up->conn)
		hvd_relay_send(up->conn, up->rv->cfg.channel, msg);
}

bool hvd_upstream_is_lost(const struct hvd_upstream *up)
{
	return up->lost;
}
