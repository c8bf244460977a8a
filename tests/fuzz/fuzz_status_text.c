/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a job, as a launch has said it: anything may be in it. */
#include "fuzz.h"
#include "launcher/diagnosis/status_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *status = json_loadb((const char *)data, size, 0, NULL);
	char *text = hvd_job_status_text(status);

	for (const char *p = text; *p; p++)
		must((unsigned char)*p >= ' ' || *p == '\n' || *p == '\t');
	free(text);
	json_decref(status);
	return 0;
}
