/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's text of a DRM client (agent/gpu_drm.h): two of them, one behind the other, which a zero byte separates. */
#include "agent/gpu_drm.h"
#include "fuzz.h"

static int read_client(const char *text, struct hvd_drm_client *client)
{
	int rc = hvd_drm_parse(text, client);

	must(client->n <= HVD_DRM_ENGINES && client->memory >= -1 && strlen(client->device) < sizeof(client->device));
	must(rc != 0 || client->id >= 0);
	for (size_t i = 0; i < client->n; i++) {
		must(client->engines[i].name[0] && strlen(client->engines[i].name) < sizeof(client->engines[i].name));
		for (size_t k = 0; k < i; k++)
			must(strcmp(client->engines[i].name, client->engines[k].name) != 0);
	}
	return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	struct hvd_drm_client last, now;
	size_t first = strlen(text);
	int32_t used;

	if (read_client(text, &last) == 0 && first < size && read_client(text + first + 1, &now) == 0) {
		used = hvd_drm_used(&last, &now, 5000000000);
		must(used >= -1 && used <= 1000000);
	}
	free(text);
	return 0;
}
