/* SPDX-License-Identifier: Apache-2.0 */
/* relay_weak.c - a server that takes no relays. */
#include "lib/protocol/conn.h"
#include "server.h"

__attribute__((weak)) void hvd_rv_relay_take(struct hvd_rv *rv, struct hvd_conn *conn)
{
	(void)rv;
	hvd_conn_free(conn);
}

__attribute__((weak)) void hvd_rv_relay_admit(struct hvd_rv *rv, const uint32_t *origins, size_t n)
{
	(void)rv;
	(void)origins;
	(void)n;
}
