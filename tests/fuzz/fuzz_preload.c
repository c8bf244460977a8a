/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of the Python that forks ranks, which has imported anybody's modules. */
#include "agent/preload_python.h"
#include "fuzz.h"

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size), again[64];
	struct hvd_preload_answer answer;

	if (hvd_preload_answer_parse(text, &answer, NULL) == 0) {
		must(answer.word <= HVD_PRELOAD_FAILED);
		must((answer.word == HVD_PRELOAD_STARTED) == (answer.pid > 1 && answer.group > 1));
		must((answer.word == HVD_PRELOAD_REFUSED || answer.word == HVD_PRELOAD_FAILED) == (answer.why != NULL));
		must(!answer.why || (answer.why > text && answer.why <= text + strlen(text)));
		if (answer.word == HVD_PRELOAD_STARTED) {
			snprintf(again, sizeof(again), "started %d %d", (int)answer.pid, (int)answer.group);
			must(strcmp(again, text) == 0);
		}
	}
	free(text);
	return 0;
}
