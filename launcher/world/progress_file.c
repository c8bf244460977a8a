/* SPDX-License-Identifier: Apache-2.0 */
#include "progress_file.h"

#include "lib/base/deadline.h"
#include "lib/process/capture.h"

#include <stdlib.h>

#define ANSWER_SECONDS 5.0
#define MAX_ANSWER     64

/* IFS: the pattern may have spaces. printf is the shell's own, so that there may be any number of files. */
static const char newest[] = "IFS=; printf '%s\\0' $1 | xargs -0 stat -L -c %.9Y -- 2>/dev/null | sort -n | tail -n 1";

bool hvd_progress_file_changed(struct hvd_progress_file *file)
{
	char *argv[] = {(char *)"sh", (char *)"-c", (char *)newest, (char *)"sh", (char *)file->pattern, NULL};
	struct hvd_spawn spawn = {.path = "/bin/sh", .argv = argv};
	double before = file->newest;
	int status;
	size_t n;
	char *text;

	if (!file->pattern)
		return false;
	text = hvd_capture(&spawn, MAX_ANSWER, hvd_deadline_in(ANSWER_SECONDS), &n, &status, NULL);
	if (!text)
		return true;
	if (status == 0 && n > 0)
		file->newest = strtod(text, NULL);
	free(text);
	return file->newest > before;
}
