/* SPDX-License-Identifier: Apache-2.0 */
/* elastic_rendezvous.c - an entry for each worker that has sent a request. Entries of workers that are gone are freed
 * when a generation is answered. */
#include "elastic_rendezvous.h"

#include "lib/base/digits.h"
#include "lib/base/xalloc.h"
#include "lib/frameworks/worker_addrs.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NOT_A_MEMBER "-1,-1,-1,-1,-1,-1"

struct entry {
	uint32_t worker;
	struct hvd_rv_request *request; /* waits for its rank; NULL: no request, or its connection broke */
	bool answer_due;                /* its connection broke while it waited: the answer is due when it asks again */
	char *address;                  /* what it has put at worker_addresses; NULL = nothing yet */
	struct entry *next;
};

struct hvd_elastic_rv {
	const struct hvd_machine *machine;
	const struct hvd_elastic_rv_ops *ops;
	void *arg;
	const struct hvd_log *log;
	const struct hvd_layout *layout; /* of the generation that was answered last */
	struct entry *entries;
	bool notify_pending;
	uint32_t notify_worker;
	int64_t last_time;
};

static struct entry *entry_of(struct hvd_elastic_rv *erv, uint32_t worker)
{
	struct entry *c = erv->entries;

	while (c && c->worker != worker)
		c = c->next;
	if (!c) {
		c = hvd_xcalloc(1, sizeof(*c));
		c->worker = worker;
		c->next = erv->entries;
		erv->entries = c;
	}
	return c;
}

static void free_entry(struct entry *c)
{
	if (c->request)
		hvd_rv_answer(c->request, 503, NULL, 0);
	free(c->address);
	free(c);
}

/* The worker at "HOST:LOCAL_RANK"; NULL: none. */
static const struct hvd_worker *worker_of(const struct hvd_elastic_rv *erv, struct hvd_slice key)
{
	const char *text = key.p;
	size_t at = key.n, digits;
	int64_t slot;

	while (at > 0 && text[at - 1] != ':')
		at--;
	digits = key.n - at;
	if (at < 2 || digits > 7)
		return NULL;
	slot = hvd_digits(text + at, digits, INT_MAX);
	for (uint32_t h = 0; slot >= 0 && h < hvd_machine_n_hosts(erv->machine); h++) {
		const char *name = hvd_machine_host(erv->machine, h);

		if (strlen(name) == at - 1 && memcmp(name, text, at - 1) == 0)
			return hvd_machine_worker_at(erv->machine, h, (int)slot);
	}
	return NULL;
}

static void answer(struct hvd_elastic_rv *erv, struct entry *c, const struct hvd_worker *w)
{
	const struct hvd_rank_slot *p = &erv->layout->rank_slots[w->rank];
	char text[128];
	int n = snprintf(text, sizeof(text), "%d,%d,%d,%d,%d,%d", p->rank, p->size, p->local_rank, p->local_size,
			 p->cross_rank, p->cross_size);
	struct hvd_rv_request *req = c->request;

	c->request = NULL;
	c->answer_due = req == NULL;
	if (req)
		hvd_rv_answer(req, 200, text, (size_t)n);
}

static enum hvd_rv_took on_ask(void *arg, struct hvd_slice key, struct hvd_rv_request *req)
{
	struct hvd_elastic_rv *erv = arg;
	const struct hvd_worker *w = worker_of(erv, key);
	struct entry *c;

	if (!w || w->state == HVD_WORKER_GONE || w->state == HVD_WORKER_ENDING) {
		hvd_debug(erv->log, "rendezvous: %.*s asks for its rank, but has none", (int)key.n, key.p);
		hvd_rv_answer(req, 200, NOT_A_MEMBER, sizeof(NOT_A_MEMBER) - 1);
		return HVD_RV_TAKEN;
	}
	c = entry_of(erv, w->id);
	if (c->request)
		hvd_rv_answer(c->request, 503, NULL, 0);
	c->request = req;
	if (c->answer_due) {
		answer(erv, c, w);
		return HVD_RV_TAKEN;
	}
	erv->ops->ready(w->id, erv->arg);
	return HVD_RV_TAKEN;
}

static void on_gone(void *arg, struct hvd_rv_request *req)
{
	struct hvd_elastic_rv *erv = arg;

	for (struct entry *c = erv->entries; c; c = c->next)
		if (c->request == req)
			c->request = NULL;
	hvd_rv_answer(req, 503, NULL, 0);
}

static void send_notify(struct hvd_elastic_rv *erv);

static int on_addresses(void *arg, struct hvd_slice key, const void *data, size_t len)
{
	struct hvd_elastic_rv *erv = arg;
	const struct hvd_worker *w = worker_of(erv, key);
	struct hvd_worker_addrs addrs;
	struct hvd_err why = {0};
	struct entry *c;

	if (!w || w->state == HVD_WORKER_GONE)
		return 200;
	if (hvd_worker_addrs_parse(data, len, &addrs, &why) != 0) {
		hvd_warn(erv->log, "%s: cannot parse the address at which local rank %d listens for host changes: %s",
			 hvd_machine_host(erv->machine, w->host), w->slot, why.msg);
		return 200;
	}
	hvd_worker_addrs_clear(&addrs);
	c = entry_of(erv, w->id);
	free(c->address);
	c->address = hvd_xstrndup(data, len);
	if (erv->notify_pending && erv->notify_worker == w->id)
		send_notify(erv);
	return 200;
}

static int on_global(void *arg, struct hvd_slice key, const void *data, size_t len)
{
	static const char prefix[] = "rank_";
	struct hvd_elastic_rv *erv = arg;
	const struct hvd_worker *w;
	int64_t rank;

	(void)data;
	(void)len;
	if (key.n <= sizeof(prefix) - 1 || key.n > 12 || memcmp(key.p, prefix, sizeof(prefix) - 1) != 0)
		return 0;
	rank = hvd_digits(key.p + sizeof(prefix) - 1, key.n - (sizeof(prefix) - 1), INT_MAX);
	if (rank < 0)
		return 0;
	w = hvd_machine_newcomer(erv->machine, (int)rank);
	if (!w)
		w = hvd_machine_member(erv->machine, (int)rank);
	if (w)
		erv->ops->arrived(w->id, erv->arg);
	return 0;
}

static void on_connected(void *arg)
{
	struct hvd_elastic_rv *erv = arg;

	erv->ops->connected(erv->arg);
}

void hvd_elastic_rv_open(struct hvd_elastic_rv *erv, struct hvd_rv *rv)
{
	const struct hvd_rv_hook ask = {.get = on_ask, .gone = on_gone}, addresses = {.put = on_addresses},
				 global = {.put = on_global, .all_deleted = on_connected};

	hvd_rv_hook(rv, "rank_and_size", &ask, erv);
	hvd_rv_hook(rv, "worker_addresses", &addresses, erv);
	hvd_rv_hook(rv, "global", &global, erv);
}

void hvd_elastic_rv_answer(struct hvd_elastic_rv *erv, const struct hvd_layout *layout)
{
	erv->layout = layout;
	for (struct entry **at = &erv->entries; *at;) {
		struct entry *c = *at;
		const struct hvd_worker *w = hvd_machine_worker(erv->machine, c->worker);

		if (!w || w->state == HVD_WORKER_GONE) {
			*at = c->next;
			free_entry(c);
			continue;
		}
		if (w->state == HVD_WORKER_READY)
			answer(erv, c, w);
		at = &c->next;
	}
}

/* ---- notifications ---- */

static void send_notify(struct hvd_elastic_rv *erv)
{
	struct entry *c = entry_of(erv, erv->notify_worker);
	const struct hvd_worker *w = hvd_machine_worker(erv->machine, erv->notify_worker);
	int64_t now = (int64_t)time(NULL);

	if (!c->address || !w)
		return; /* it is notified when it has published its address, at the beginning of the training */
	erv->notify_pending = false;
	erv->last_time = now > erv->last_time ? now : erv->last_time + 1;
	erv->ops->notify(w, c->address, erv->last_time, erv->arg);
}

void hvd_elastic_rv_notify(struct hvd_elastic_rv *erv, uint32_t worker)
{
	erv->notify_pending = true;
	erv->notify_worker = worker;
	send_notify(erv);
}

void hvd_elastic_rv_cancel_notify(struct hvd_elastic_rv *erv)
{
	erv->notify_pending = false;
}

struct hvd_elastic_rv *hvd_elastic_rv_create(const struct hvd_machine *machine, const struct hvd_elastic_rv_ops *ops,
					     void *arg, const struct hvd_log *log)
{
	struct hvd_elastic_rv *erv = hvd_xcalloc(1, sizeof(*erv));

	erv->machine = machine;
	erv->ops = ops;
	erv->arg = arg;
	erv->log = log;
	return erv;
}

void hvd_elastic_rv_destroy(struct hvd_elastic_rv *erv)
{
	if (!erv)
		return;
	hvd_elastic_rv_cancel_notify(erv);
	while (erv->entries) {
		struct entry *next = erv->entries->next;

		free_entry(erv->entries);
		erv->entries = next;
	}
	free(erv);
}
