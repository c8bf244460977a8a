/* SPDX-License-Identifier: Apache-2.0 */
/* send_hello.h - for tests: the driver's end of a handshake begins. */
#ifndef HVD_TESTS_SEND_HELLO_H
#define HVD_TESTS_SEND_HELLO_H

#include "lib/protocol/handshake.h"
#include "tests/unit/unit.h"

static inline void send_hello(struct hvd_handshake *hs, struct hvd_session *session, struct hvd_conn *conn)
{
	json_t *hello = hvd_handshake_hello(hs, session, NULL);

	assert_non_null(hello);
	hvd_conn_send(conn, hello);
}

#endif
