/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks write of their failures: however the bytes come, the same is found, and it is bounded. */
#include "fuzz.h"
#include "lib/host/rank_error.h"

static void fill(const uint8_t *data, size_t size, size_t piece, struct hvd_rank_end *end)
{
	struct hvd_rank_error *e = hvd_rank_error_create(5);
	size_t half = size / 2;

	*end = (struct hvd_rank_end){.status = 256, .ended_at = 2};
	for (size_t at = 0; at < size; at += piece) {
		size_t n = at + piece < size ? piece : size - at;

		hvd_rank_error_stderr(e, (const char *)data + at, n, 1);
	}
	hvd_rank_error_file(e, (const char *)data, half, 1);
	hvd_rank_error_fill(e, end);
	must(!end->error || strlen(end->error) <= HVD_RANK_END_ERROR);
	must(!end->traceback || strlen(end->traceback) <= HVD_RANK_END_TRACEBACK);
	must(!end->tail || strlen(end->tail) <= HVD_RANK_END_TAIL);
	must(!end->error || !strchr(end->error, '\n'));
	hvd_rank_error_destroy(e);
}

static void same(const char *a, const char *b)
{
	must((a == NULL) == (b == NULL) && (!a || strcmp(a, b) == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hvd_rank_end one, other;

	fill(data, size, size + 1, &one);
	fill(data, size, size ? 1 + data[0] % 64 : 1, &other);
	same(one.error, other.error);
	same(one.traceback, other.traceback);
	same(one.tail, other.tail);
	must(one.failed_at == other.failed_at);
	hvd_rank_end_clear(&one);
	hvd_rank_end_clear(&other);
	return 0;
}
