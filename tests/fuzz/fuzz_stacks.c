/* SPDX-License-Identifier: Apache-2.0 */
/* What py-spy, eu-stack and gdb print of a process, the lines of a step's tasks, and what hosts say of their ranks. */
#include "agent/stack_parse.h"
#include "fuzz.h"
#include "launcher/diagnosis/busy_hang.h"
#include "launcher/diagnosis/stack_events.h"
#include "launcher/diagnosis/stack_groups.h"
#include "lib/host/stack_pieces.h"

static void check(json_t *stacks)
{
	char *text;

	if (!stacks)
		return;
	if (json_array_size(json_object_get(stacks, "frames")) > HVD_STACK_FRAMES ||
	    json_array_size(json_object_get(stacks, "threads")) > HVD_STACK_THREADS)
		abort();
	text = json_dumps(stacks, 0); /* fails where a text is not UTF-8 */
	if (!text)
		abort();
	free(text);
	json_decref(stacks);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size), *report;
	json_t *said = json_loadb(text, strlen(text), 0, NULL), *groups, *samples = json_array();

	check(hvd_stack_parse_pyspy((const char *)data, size, 1));
	check(hvd_stack_parse_native((const char *)data, size, 1));
	json_decref(hvd_stack_pieces_read((const char *)data, size));
	if (said) {
		report = hvd_stack_groups_text(said, "x");
		if (strchr(report, '\033'))
			abort();
		free(report);
		groups = hvd_stack_groups_json(said);
		if (!groups)
			abort();
		json_decref(groups);
		hvd_stack_events(said, 0, NULL);
		json_array_append_new(samples, json_incref(said));
		json_array_append_new(samples, said);
		report = hvd_stack_samples_text(samples, "x");
		if (strchr(report, '\033'))
			abort();
		free(report);
		json_decref(hvd_stack_samples_json(samples));
		hvd_busy_hang_judge(said, json_object_get(said, "second") ? json_object_get(said, "second") : said, 1,
				    1, &report);
		if (strpbrk(report, "\033\n"))
			abort();
		free(report);
	}
	json_decref(samples);
	free(text);
	return 0;
}
