/* SPDX-License-Identifier: Apache-2.0 */
/* relay_weak.c - a server that takes no relays. */
#include "downstream.h"

#include "lib/protocol/conn.h"

__attribute__((weak)) struct hvd_downstream *hvd_downstream_create(struct hvd_rv *rv)
{
	(void)rv;
	return NULL;
}

__attribute__((weak)) void hvd_downstream_destroy(struct hvd_downstream *down)
{
	(void)down;
}

__attribute__((weak)) void hvd_downstream_take(struct hvd_downstream *down, struct hvd_conn *conn)
{
	(void)down;
	hvd_conn_free(conn);
}

__attribute__((weak)) void hvd_downstream_admit(struct hvd_downstream *down, const uint32_t *origins, size_t n)
{
	(void)down;
	(void)origins;
	(void)n;
}

__attribute__((weak)) size_t hvd_downstream_count(const struct hvd_downstream *down)
{
	(void)down;
	return 0;
}

__attribute__((weak)) void hvd_downstream_drop(struct hvd_downstream *down)
{
	(void)down;
}

__attribute__((weak)) void hvd_downstream_renew(struct hvd_downstream *down)
{
	(void)down;
}

__attribute__((weak)) void hvd_downstream_ask_waits(struct hvd_downstream *down, unsigned max,
						    void (*done)(char *text, void *arg), void *arg)
{
	(void)down;
	(void)max;
	done(NULL, arg);
}

__attribute__((weak)) void hvd_downstream_pass(struct hvd_downstream *down, const struct hvd_relay_msg *msg)
{
	(void)down;
	(void)msg;
}
