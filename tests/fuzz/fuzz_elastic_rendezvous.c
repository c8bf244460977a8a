/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What workers of an elastic job may ask and tell, and whoever else reaches the rendezvous: keys of the three scopes in
 * any order, while hosts and workers come and go. A line is an event, its first letter which one:
 *
 *   g KEY   GET /rank_and_size/KEY                 x       the client that has waited for longest goes
 *   a KEY   PUT /worker_addresses/KEY, well-formed  h TEXT  the hosts are TEXT
 *   b KEY   the same, with KEY as its value, too   e N     worker N ends
 *   p KEY   PUT /global/KEY                        m       all have met
 *
 * The server is not there: this stands for it, and sees that each request is answered once.
 */
#include "fuzz.h"
#include "launcher/world/elastic_rendezvous.h"
#include "lib/frameworks/worker_addrs.h"
#include "tests/unit/idle_machine_ops.h"
#include "tests/unit/worker_addrs_text.h"

#define REQUESTS 64

struct hvd_rv_request {
	bool waits;
	bool answered;
};

struct world {
	struct hvd_machine *machine;
	struct hvd_elastic_rv *erv;
	struct hvd_layout layout;
	char *addresses;
	uint32_t ready[REQUESTS], arrived[REQUESTS];
	size_t n_ready, n_arrived;
	bool met, answer, over;
};

static struct hvd_rv_request requests[REQUESTS];
static size_t n_requests;
static struct hvd_rv_hook hooks[3];

void hvd_rv_hook(struct hvd_rv *rv, const char *scope, const struct hvd_rv_hook *hook, void *arg)
{
	(void)rv;
	(void)arg;
	hooks[*scope == 'r' ? 0 : *scope == 'w' ? 1 : 2] = *hook;
}

void hvd_rv_answer(struct hvd_rv_request *req, int status, const void *data, size_t len)
{
	must(!req->answered && (status == 200 || status == 503));
	must(status == 503 ? len == 0 : len >= strlen("0,1,0,1,0,1") && len < 128 && memchr(data, ',', len));
	req->answered = true;
	req->waits = false;
}

/* ---- what the elastic rendezvous tells: as in elastic.c it is acted on later ---- */

static void on_arrived(uint32_t worker, void *arg)
{
	struct world *w = arg;

	if (w->n_arrived < REQUESTS)
		w->arrived[w->n_arrived++] = worker;
}

static void on_connected(void *arg)
{
	((struct world *)arg)->met = true;
}

static void on_ready(uint32_t worker, void *arg)
{
	struct world *w = arg;

	if (w->n_ready < REQUESTS)
		w->ready[w->n_ready++] = worker;
}

static void on_notify(const struct hvd_worker *worker, const char *to, int64_t when, void *arg)
{
	struct hvd_worker_addrs addrs;

	(void)arg;
	must(worker && when > 0);
	must(hvd_worker_addrs_parse(to, strlen(to), &addrs, NULL) == 0);
	hvd_worker_addrs_clear(&addrs);
}

/* ---- what the machine says ---- */

static void do_generation(bool prepared, void *arg)
{
	struct world *w = arg;

	(void)prepared;
	hvd_elastic_rv_cancel_notify(w->erv);
	hvd_layout_clear(&w->layout);
	must(hvd_machine_layout(w->machine, false, &w->layout, NULL) == 0);
}

static void do_answer(void *arg)
{
	struct world *w = arg;

	hvd_elastic_rv_answer(w->erv, &w->layout);
}

static void do_notify(uint32_t worker, void *arg)
{
	hvd_elastic_rv_notify(((struct world *)arg)->erv, worker);
}

static void do_finish(const struct hvd_err *why, int status, void *arg)
{
	(void)why;
	(void)status;
	((struct world *)arg)->over = true;
}

/* ---- events ---- */

static void hosts(struct world *w, const char *text)
{
	struct hvd_alloc alloc = {0};

	if (hvd_alloc_from_hosts(&alloc, text, 1, NULL) == 0 && alloc.slots < 64) {
		hvd_machine_hosts(w->machine, &alloc, hvd_now());
		for (uint32_t h = 0; h < hvd_machine_n_hosts(w->machine) && !w->over; h++)
			hvd_machine_host_here(w->machine, h, hvd_now());
	}
	hvd_alloc_clear(&alloc);
}

static void act(struct world *w)
{
	for (size_t i = 0; i < w->n_arrived && !w->over; i++)
		hvd_machine_arrived(w->machine, w->arrived[i], hvd_now());
	for (size_t i = 0; i < w->n_ready && !w->over; i++)
		hvd_machine_ready(w->machine, w->ready[i], hvd_now());
	if (w->met && !w->over)
		hvd_machine_connected(w->machine, hvd_now());
	w->n_arrived = w->n_ready = 0;
	w->met = false;
}

static void leave(struct world *w)
{
	for (size_t i = 0; i < n_requests; i++)
		if (requests[i].waits) {
			hooks[0].gone(w->erv, &requests[i]);
			must(requests[i].answered);
			return;
		}
}

static void event(struct world *w, const char *line, size_t len)
{
	/* Names are not terminated: memory of exactly that size. */
	char *copy = malloc(len ? len : 1), *text = fuzz_text((const uint8_t *)line, len);
	struct hvd_slice key = {.p = copy, .n = len > 2 ? len - 2 : 0};

	must(copy != NULL);
	memcpy(copy, line + len - key.n, key.n);
	switch (len ? *line : 0) {
	case 'g':
		if (n_requests == REQUESTS)
			break;
		requests[n_requests] = (struct hvd_rv_request){.waits = true};
		must(hooks[0].get(w->erv, key, &requests[n_requests]) == HVD_RV_TAKEN);
		n_requests++;
		break;
	case 'a':
		must(hooks[1].put(w->erv, key, w->addresses, strlen(w->addresses)) == 200);
		break;
	case 'b':
		must(hooks[1].put(w->erv, key, key.p, key.n) == 200);
		break;
	case 'p':
		must(hooks[2].put(w->erv, key, "", 0) == 0);
		break;
	case 'm':
		hooks[2].all_deleted(w->erv);
		break;
	case 'x':
		leave(w);
		break;
	case 'h':
		hosts(w, len > 2 ? text + 2 : "");
		break;
	case 'e':
		if (hvd_machine_worker(w->machine, (uint32_t)atoi(len > 2 ? text + 2 : "0")))
			hvd_machine_exited(w->machine, (uint32_t)atoi(len > 2 ? text + 2 : "0"), 0, hvd_now());
		break;
	default:
		break;
	}
	free(copy);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct hvd_machine_ops machine_ops = {.host_begin = do_host,
							   .host_end = do_host,
							   .prepare = do_nothing,
							   .generation = do_generation,
							   .worker_start = do_start,
							   .worker_end = do_end,
							   .answer = do_answer,
							   .notify = do_notify,
							   .kill_connections = do_nothing,
							   .finish = do_finish};
	static const struct hvd_elastic_rv_ops ops = {
		.arrived = on_arrived, .connected = on_connected, .ready = on_ready, .notify = on_notify};
	const struct hvd_machine_opts opts = {.np = 2, .min_np = 2, .reset_limit = -1, .elastic_timeout = 60};
	struct hvd_worker_addr one = {.iface = "lo", .port = 4321};
	struct hvd_worker_addrs addrs = {.v = &one, .n = 1};
	struct hvd_log log = hvd_log_make("fuzz", HVD_LOG_DEBUG);
	const char *at = (const char *)data, *end = at + size;
	struct world w = {0};

	n_requests = 0;
	log.fd = -1;
	hvd_addr_parse("127.0.0.1", &one.addr);
	w.addresses = worker_addrs_text(&addrs);
	w.machine = hvd_machine_create(&opts, hvd_now(), &machine_ops, &w, &log);
	w.erv = hvd_elastic_rv_create(w.machine, &ops, &w, &log);
	hvd_elastic_rv_open(w.erv, NULL);
	hosts(&w, "a:2,b.example:1");
	while (at < end && !w.over) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		size_t len = (size_t)((stop ? stop : end) - at);

		event(&w, at, len);
		act(&w);
		at += len + 1;
	}
	hvd_elastic_rv_destroy(w.erv);
	for (size_t i = 0; i < n_requests; i++)
		must(requests[i].answered);
	hvd_machine_destroy(w.machine);
	hvd_layout_clear(&w.layout);
	free(w.addresses);
	return 0;
}
