/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer to a client after an operation was carried out, or was refused.
 */
#include "tcpstore.h"

void hvd_tcpstore_send_byte(struct hvd_tcpstore_conn *c, unsigned char byte)
{
	hvd_tcpstore_send(c, &byte, 1);
}

static void send_number(struct hvd_tcpstore_conn *c, int64_t n)
{
	char out[8];

	hvd_tcpstore_put_u64(&c->wire, (uint64_t)n, out);
	hvd_tcpstore_send(c, out, sizeof(out));
}

static void send_bytes(struct hvd_tcpstore_conn *c, struct hvd_slice bytes)
{
	send_number(c, (int64_t)bytes.n);
	hvd_tcpstore_send(c, bytes.p, bytes.n);
}

bool hvd_tcpstore_stored(struct hvd_tcpstore_conn *c, enum hvd_rv_stored why)
{
	if (why == HVD_RV_TOO_LONG)
		hvd_tcpstore_close(c, HVD_LOG_WARN, "a value would become longer than the store allows");
	else if (why != HVD_RV_STORED)
		hvd_tcpstore_close(c, HVD_LOG_WARN, "the store has no room left");
	return why == HVD_RV_STORED;
}

/* False when the connection was closed. */
static bool done(struct hvd_tcpstore_conn *c, enum hvd_store_status status)
{
	switch (status) {
	case HVD_OP_DONE:
		return true;
	case HVD_OP_TOO_LONG:
		return hvd_tcpstore_stored(c, HVD_RV_TOO_LONG);
	case HVD_OP_NO_NUMBER:
		hvd_tcpstore_close(c, HVD_LOG_WARN, "it counts with a value that is not a number, or too large");
		return false;
	case HVD_OP_CANCELLED:
		return false;
	case HVD_OP_NO_SCOPE:
		hvd_tcpstore_close(
			c, HVD_LOG_WARN,
			"the store has forgotten its process, because its host was disconnected for too long");
		return false;
	default:
		return hvd_tcpstore_stored(c, HVD_RV_NO_ROOM);
	}
}

static void send_keys(struct hvd_tcpstore_conn *c, const struct hvd_store_result *result)
{
	const unsigned char *p = result->value->data, *end = p + result->value->len;

	send_number(c, result->number);
	while (p < end && !c->s.closed) {
		size_t n = (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];

		send_bytes(c, (struct hvd_slice){(const char *)p + 4, n});
		p += 4 + n;
	}
}

void hvd_tcpstore_send_result(struct hvd_tcpstore_conn *c, enum hvd_store_op_kind kind,
			      const struct hvd_store_result *result)
{
	if (!done(c, result->status))
		return;
	switch (kind) {
	case HVD_OP_COMPARE_SET:
	case HVD_OP_GET:
		if (result->value)
			hvd_tcpstore_send_value(c, result->value);
		else
			send_number(c, 0);
		break;
	case HVD_OP_ADD:
	case HVD_OP_DELETE:
	case HVD_OP_NUM_KEYS:
	case HVD_OP_QUEUE_LEN:
		send_number(c, result->number);
		break;
	case HVD_OP_QUEUE_POP:
		send_number(c, result->number);
		if (result->value)
			hvd_tcpstore_send_value(c, result->value);
		break;
	case HVD_OP_LIST_KEYS:
		send_keys(c, result);
		break;
	case HVD_OP_BARRIER:
		hvd_tcpstore_send_byte(c, 0);
		break;
	default: /* has no answer */
		break;
	}
}
