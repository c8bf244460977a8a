/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_conn.h - for fuzz targets with connections of relays: what has no meaning there. */
#ifndef HVD_TESTS_FUZZ_CONN_H
#define HVD_TESTS_FUZZ_CONN_H

#include "lib/protocol/conn.h"

static inline void on_message(struct hvd_conn *conn, json_t *msg, void *arg)
{
	(void)conn;
	(void)msg;
	(void)arg;
}

static inline void on_closed(struct hvd_conn *conn, const struct hvd_err *why, void *arg)
{
	(void)conn;
	(void)why;
	(void)arg;
}

#endif
