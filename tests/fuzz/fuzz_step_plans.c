/* SPDX-License-Identifier: Apache-2.0 */
/* The variables of a host's tasks, in memory that any process of the user may have written: what a task is given ends
 * within the memory. */
#include "fuzz.h"
#include "lib/protocol/step_plans.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *memory = malloc(size ? size : 1), *plan;
	pid_t agent = 0;

	must(memory != NULL);
	if (size > 1)
		memcpy(memory, data + 1, size - 1);
	plan = size ? hvd_step_plans_nth(memory, size - 1, data[0] % 8, &agent) : NULL;
	while (plan && *plan)
		plan += strlen(plan) + 1;
	must(!plan || plan < memory + size - 1);
	free(memory);
	return 0;
}
