/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What may come from the driver to the rendezvous on the first host: messages as JSON texts, a line each. Whatever they
 * say, the service stays within its limits, listens on no address that it did not have, and can be closed.
 */
#include "fuzz.h"
#include "lib/rendezvous/server.h"
#include "lib/rendezvous/service.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct event_base *base;
	char *text = fuzz_text(data, size), *save = NULL;
	struct hvd_addr addr;
	struct hvd_this_host self = {.addrs = &addr, .n_addrs = 1};
	struct hvd_rv_service service = {0};
	struct sockaddr_storage at;
	struct hvd_rv_stats stats;
	struct hvd_key key = {{7}};

	if (!base)
		must((base = event_base_new()) != NULL);
	hvd_addr_parse("127.0.0.1", &addr);
	must(hvd_rv_service_open(&service, base, &key, &self, 0, 0, 0, NULL, NULL) == 0);
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		json_t *msg = json_loads(line, 0, NULL);

		hvd_rv_service_message(&service, msg);
		json_decref(msg);
	}
	must(hvd_rv_listener(service.rv, 1, &at) != 0);
	hvd_rv_stats(service.rv, &stats);
	must(stats.store.keys == 0 && stats.store.scopes <= 65536);
	hvd_rv_service_close(&service);
	free(text);
	return 0;
}
