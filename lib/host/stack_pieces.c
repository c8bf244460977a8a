/* SPDX-License-Identifier: Apache-2.0 */
#include "stack_pieces.h"

#include "lib/base/cleanup.h"
#include "lib/base/digits.h"
#include "lib/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

#define MARK  "hvd-stacks "
#define PIECE 900

int hvd_stack_pieces_write(FILE *out, unsigned task, const json_t *answer)
{
	hvd_cleanup_free char *text = json_dumps(answer, JSON_COMPACT | JSON_ENSURE_ASCII);

	for (const char *p = text; p && *p;) {
		size_t n = strlen(p) < PIECE ? strlen(p) : PIECE;

		if (fprintf(out, MARK "%u %.*s\n", task, (int)n, p) < 0)
			return -1;
		p += n;
	}
	return text && fflush(out) == 0 ? 0 : -1;
}

struct task {
	unsigned number;
	char *text;
	size_t len, room;
};

static void add(struct task *task, const char *piece, size_t n)
{
	while (task->len + n + 1 > task->room)
		task->text = hvd_xrealloc(task->text, task->room = task->room ? 2 * task->room : 4096, 1);
	memcpy(task->text + task->len, piece, n);
	task->len += n;
}

json_t *hvd_stack_pieces_read(const char *text, size_t len)
{
	struct task *tasks = NULL;
	size_t n = 0, room = 0;
	json_t *answers = json_array();

	for (const char *p = text, *end = text + len, *nl; p < end; p = nl + 1) {
		size_t mark = strlen(MARK), t = 0;
		const char *q;
		int64_t number;

		nl = memchr(p, '\n', (size_t)(end - p));
		nl = nl ? nl : end;
		if ((size_t)(nl - p) <= mark || memcmp(p, MARK, mark) != 0)
			continue;
		p += mark;
		q = memchr(p, ' ', (size_t)(nl - p));
		number = q ? hvd_digits(p, (size_t)(q - p), HVD_STACK_PIECES_TASKS - 1) : -1;
		if (number < 0)
			continue;
		while (t < n && tasks[t].number != number)
			t++;
		if (t == n) {
			if (n == room)
				tasks = hvd_xrealloc(tasks, room = room ? 2 * room : 16, sizeof(*tasks));
			tasks[n++] = (struct task){.number = (unsigned)number};
		}
		add(&tasks[t], q + 1, (size_t)(nl - q - 1));
	}
	for (size_t t = 0; t < n; t++) {
		json_t *answer = json_loadb(tasks[t].text ? tasks[t].text : "", tasks[t].len, 0, NULL);

		if (json_is_object(answer))
			json_array_append(answers, answer);
		json_decref(answer);
		free(tasks[t].text);
	}
	free(tasks);
	return answers;
}
