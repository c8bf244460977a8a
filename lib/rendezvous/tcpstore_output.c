/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends answers. The answers to one read() collect in ts->out, and go out together.
 */
#include "tcpstore.h"

#include <string.h>

#define OUT_HIGH  (1 << 20) /* bytes of answers that are not sent, with which no request is begun */
#define COPY_MAX  4096      /* a value that is longer is sent from where it is stored */
#define OUT_STALL 300.0     /* seconds without progress in the middle of an answer */

bool hvd_tcpstore_may_ask(const struct hvd_tcpstore_conn *c)
{
	return !c->asks && (c->wire.in_list || c->s.out_left <= OUT_HIGH);
}

void hvd_tcpstore_expect_output(struct hvd_tcpstore_conn *c)
{
	if (c->s.closed || !c->s.first_out)
		return;
	hvd_rv_arm(c->ts->rv, &c->s.timer, hvd_deadline_in(OUT_STALL));
	hvd_rv_stream_watch(&c->s, hvd_tcpstore_may_ask(c) ? EV_READ | EV_WRITE : EV_WRITE);
}

void hvd_tcpstore_send_current(struct hvd_tcpstore_conn *c, struct hvd_rv_value *v)
{
	size_t len = c->ts->out_len;

	c->ts->out_len = 0;
	hvd_rv_stream_send(&c->s, c->ts->out, len, v, 0);
}

void hvd_tcpstore_send(struct hvd_tcpstore_conn *c, const void *data, size_t len)
{
	struct hvd_tcpstore *ts = c->ts;

	if (!c->s.closed && !c->s.first_out && c == ts->current && len > sizeof(ts->out) - ts->out_len)
		hvd_tcpstore_send_current(c, NULL);
	if (c->s.closed || len == 0)
		return;
	if (!c->s.first_out && c == ts->current && len <= sizeof(ts->out)) {
		memcpy(ts->out + ts->out_len, data, len);
		ts->out_len += len;
		return;
	}
	hvd_rv_stream_send(&c->s, data, len, NULL, 0);
	if (c != ts->current)
		hvd_tcpstore_expect_output(c);
}

void hvd_tcpstore_send_value(struct hvd_tcpstore_conn *c, struct hvd_rv_value *v)
{
	char len[8];

	hvd_tcpstore_put_u64(&c->wire, v->len, len);
	hvd_tcpstore_send(c, len, sizeof(len));
	if (c->s.closed)
		return;
	if (v->len <= COPY_MAX)
		hvd_tcpstore_send(c, v->data, v->len);
	else
		hvd_tcpstore_send_current(c, v); /* values are sent to nobody else */
}
