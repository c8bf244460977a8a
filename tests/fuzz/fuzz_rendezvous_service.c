/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What may come from the driver to the rendezvous on rank 0's host, and from there to the driver: messages as JSON
 * texts, a line each. Whatever they say, the service stays within its limits, listens on no address that it did not
 * have, and can be closed.
 */
#include "fuzz.h"
#include "lib/rendezvous/server.h"
#include "lib/rendezvous/service.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void on_joined(const struct hvd_rv_join *join, void *arg)
{
	(void)arg;
	must(join->from.family != AF_UNSPEC);
}

static void on_said(enum hvd_log_level level, const char *text, void *arg)
{
	(void)arg;
	must(level >= HVD_LOG_WARN && level <= HVD_LOG_DEBUG && strlen(text) <= 4096);
}

static void on_changes(uint64_t n, void *arg)
{
	(void)arg;
	must(n <= INT64_MAX);
}

static void on_waits(const char *text, void *arg)
{
	(void)arg;
	must(strlen(text) <= 65536);
}

static void closed(struct hvd_conn *conn, const struct hvd_err *why, void *arg)
{
	(void)conn;
	(void)why;
	(void)arg;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct hvd_rv_service_ops ops = {on_joined, on_waits, on_said, on_changes};
	static const struct hvd_conn_ops conn_ops = {.closed = closed};
	static struct hvd_endpoints elsewhere = {.n = 1};
	static struct event_base *base;
	char *text = fuzz_text(data, size), *save = NULL;
	struct hvd_addr addr;
	struct hvd_this_host self = {.addrs = &addr, .n_addrs = 1};
	struct hvd_rv_service service = {0}, driver = {0};
	struct hvd_conn *conn;
	int sv[2];
	struct sockaddr_storage at;
	struct hvd_rv_stats stats;
	struct hvd_key key = {{7}};

	if (!base)
		must((base = event_base_new()) != NULL);
	hvd_addr_parse("127.0.0.1", &addr);
	must(hvd_rv_service_open(&service, base, &key, &self, 0, 0, 0, NULL, NULL) == 0);
	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) == 0);
	conn = hvd_conn_new(base, sv[0], true, &conn_ops, NULL);
	hvd_rv_service_tcpstore(&driver, &ops, NULL);
	hvd_rv_service_connect(&driver, conn, &elsewhere);
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		json_t *msg = json_loads(line, 0, NULL);

		hvd_rv_service_message(&service, msg);
		hvd_rv_service_message(&driver, msg);
		json_decref(msg);
	}
	must(hvd_rv_listener(service.rv, 1, &at) != 0);
	hvd_rv_stats(service.rv, &stats);
	must(stats.store.keys == 0 && stats.store.scopes <= 65536);
	hvd_conn_free(conn);
	event_base_loop(base, EVLOOP_NONBLOCK); /* which closes it */
	close(sv[1]);
	hvd_rv_service_close(&driver);
	hvd_rv_service_close(&service);
	free(text);
	return 0;
}
