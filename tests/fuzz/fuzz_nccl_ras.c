/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's status (agent/nccl_comms.h), and what the driver writes of its summary; the first line is an address of its RAS
 * (agent/nccl_ras.h). */
#include "agent/nccl_comms.h"
#include "agent/nccl_ras.h"
#include "fuzz.h"
#include "launcher/diagnosis/stack_groups.h"

static void show(json_t *nccl)
{
	json_t *answers = json_pack("{s:[], s:[], s:O*}", "hosts", "silent", "nccl", nccl);
	char *text = hvd_stack_groups_text(answers, "a job");

	for (const char *p = text; *p; p++)
		must(*p == '\n' || (unsigned char)*p >= ' ');
	free(text);
	json_decref(answers);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size), *line = strchr(text, '\n');
	struct hvd_addr addr;
	in_port_t port;
	json_t *status, *found;

	if (line) {
		*line++ = '\0';
		if (hvd_nccl_ras_addr(text, &addr, &port) == 0)
			must(port != 0 && hvd_addr_loopback(&addr));
		status = json_loads(line, JSON_DECODE_ANY, NULL);
		show(status);
		found = hvd_nccl_comms(status, json_array_get(json_object_get(status, "earlier"), 0));
		if (found)
			show(found);
		json_decref(found);
		json_decref(status);
	}
	free(text);
	return 0;
}
