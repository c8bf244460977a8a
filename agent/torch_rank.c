/* SPDX-License-Identifier: Apache-2.0 */
#include "torch_rank.h"

#include "lib/process/descendants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROCESSES_MOST 64

/* Has the file of the process a piece that ends with `end` and has this text? */
static bool has_piece(pid_t pid, const char *file, int end, const char *text)
{
	char path[64], *piece = NULL;
	bool found = false;
	size_t room = 0;
	ssize_t n;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	f = fopen(path, "re");
	if (!f)
		return false;
	while (!found && (n = getdelim(&piece, &room, end, f)) > 0)
		found = strstr(piece, text) != NULL;
	free(piece);
	fclose(f);
	return found;
}

bool hvd_torch_rank(pid_t pid)
{
	struct hvd_pids below = {0};
	bool is = false;

	for (size_t i = 0; !is && i <= below.n && i < PROCESSES_MOST; i++) {
		pid_t each = i == 0 ? pid : below.v[i - 1];

		is = has_piece(each, "environ", '\0', "TORCHELASTIC_USE_AGENT_STORE=True") &&
		     has_piece(each, "maps", '\n', "/libtorch");
		if (!is)
			hvd_pids_add_children(&below, each);
	}
	free(below.v);
	return is;
}
