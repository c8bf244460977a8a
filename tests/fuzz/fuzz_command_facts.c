/* SPDX-License-Identifier: Apache-2.0 */
/* What is read of a command's files, and the list of a surrounding launch's variables: any text is fine. */
#include "fuzz.h"
#include "lib/frameworks/command_facts.h"
#include "lib/frameworks/launch_marks.h"
#include "lib/process/interpreter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size), *python = hvd_script_python(text);

	if (python && !hvd_is_python(python))
		abort();
	free(python);
	if (hvd_torch_version_parse(text) > HVD_TORCH(999, 999))
		abort();
	hvd_launch_marks_has(text, "RANK", "3");
	free(text);
	return 0;
}
