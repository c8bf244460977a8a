/* SPDX-License-Identifier: Apache-2.0 */
#include "last_lines.h"

#include "lib/base/cleanup.h"
#include "lib/base/printable.h"
#include "lib/base/xalloc.h"
#include "lib/protocol/wire.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Of a line that was written again and again, as a progress bar, the last is what a terminal shows. */
static void drop_overwritten(char *text)
{
	char *to = text;

	for (char *line = text, *next; *line; line = next) {
		size_t len = strcspn(line, "\n"), end;
		const char *cr;

		next = line + len + (line[len] == '\n');
		for (end = len; end > 0 && line[end - 1] == '\r'; end--)
			;
		cr = memrchr(line, '\r', end);
		end -= cr ? (size_t)(cr + 1 - line) : 0;
		memmove(to, cr ? cr + 1 : line, end);
		to += end;
		if (next[-1] == '\n')
			*to++ = '\n';
	}
	*to = '\0';
}

/* Escaped, since it need not be UTF-8. The caller frees it. */
static char *make_printable(char *text)
{
	const size_t size = 4 * strlen(text) + 1;
	char *out = hvd_xcalloc(1, size);

	drop_overwritten(text);
	hvd_printable(text, out, size);
	return out;
}

void hvd_last_lines_add(const struct hvd_agent *agent, struct hvd_world_rank rank, json_t *msg)
{
	struct hvd_rank_lines lines = {0};
	hvd_cleanup_free char *text = NULL;

	if (agent->source->lines)
		agent->source->lines(agent->ranks, rank, &lines);
	text = lines.text ? make_printable(lines.text) : NULL;
	json_object_set_new(msg, "lines", json_string(text ? text : ""));
	json_object_set_new(msg, "of", json_string(lines.of ? lines.of : "nothing"));
	free(lines.text);
	free(lines.of);
}

static void on_lines(void *arg, const json_t *msg)
{
	const struct hvd_of_world *self = arg; /* there is no other state */
	json_t *answer;
	int64_t rank;

	if (hvd_get_int(msg, "rank", 0, INT_MAX, &rank, NULL) != 0)
		return;
	answer = json_pack("{s:s, s:O}", "t", "answer", "id", json_object_get(msg, "id"));
	hvd_last_lines_add(self->agent, (struct hvd_world_rank){self->world, (uint32_t)rank}, answer);
	hvd_of_world_send(self, answer);
}

const struct hvd_feature hvd_last_lines_feature = {
	.size = sizeof(struct hvd_of_world),
	.by_world = true,
	.messages = (const struct hvd_agent_message[]){{"lines", on_lines}, {NULL, NULL}},
};
