/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between relays, of any bytes: the first says which end has sent them. What can be parsed comes back the same
 * when it is sent, and in the end nothing of the budget is left used. With a budget of few bytes nothing more is taken.
 */
#include "fuzz.h"
#include "lib/rendezvous/relay_wire.h"

struct bytes {
	unsigned char *p;
	size_t n;
};

static struct bytes encoded(const struct hvd_relay_msg *msg)
{
	struct hvd_relay_bytes out;
	struct bytes all = {0};

	hvd_relay_encode(msg, &out);
	must(out.n <= sizeof(out.pieces) / sizeof(out.pieces[0]) && out.used <= sizeof(out.fixed));
	for (size_t i = 0; i < out.n; i++)
		all.n += out.pieces[i].n;
	all.p = malloc(all.n);
	must(all.p != NULL);
	all.n = 0;
	for (size_t i = 0; i < out.n; i++) {
		memcpy(all.p + all.n, out.pieces[i].p, out.pieces[i].n);
		all.n += out.pieces[i].n;
	}
	return all;
}

static void round_trip(const struct hvd_relay_msg *msg, bool from_relay, struct hvd_rv_budget *budget)
{
	struct bytes first = encoded(msg), second;
	struct hvd_relay_msg back;

	must(hvd_relay_parse(first.p, first.n, from_relay, budget, &back, NULL) == 0);
	must(back.type == msg->type && back.stored == HVD_RV_STORED);
	second = encoded(&back);
	must(first.n == second.n && memcmp(first.p, second.p, first.n) == 0);
	hvd_relay_msg_clear(&back);
	free(first.p);
	free(second.p);
}

static void parse(const uint8_t *data, size_t size, bool from_relay, size_t room)
{
	struct hvd_rv_budget budget = {.value_max = room, .total_max = room};
	unsigned char *copy = malloc(size ? size : 1); /* of exactly that size */
	struct hvd_relay_msg msg;
	struct hvd_err err = {0};
	int rc;

	must(copy != NULL);
	memcpy(copy, data, size);
	rc = hvd_relay_parse(copy, size, from_relay, &budget, &msg, &err);
	must(budget.used <= room);
	if (rc == 0) {
		must(!(msg.stored != HVD_RV_STORED && (msg.op.value || msg.result.value)));
		/* Without its value it is another message. */
		if (msg.stored == HVD_RV_STORED && room > (1 << 20))
			round_trip(&msg, from_relay, &budget);
		hvd_relay_msg_clear(&msg);
	} else {
		must(err.code == HVD_E_PROTO || err.code == HVD_E_LIMIT);
	}
	must(budget.used == 0);
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	parse(data + 1, size - 1, data[0] & 1, (size_t)1 << 30);
	parse(data + 1, size - 1, data[0] & 1, 300);
	return 0;
}
