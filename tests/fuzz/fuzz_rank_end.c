/* SPDX-License-Identifier: Apache-2.0 */
/* What hosts say of ranks that have ended: it is bounded, and read again it is the same; and any history of such ends
 * makes a report. */
#include "fuzz.h"
#include "launcher/diagnosis/failure_report.h"
#include "launcher/hosts/clocks.h"
#include "lib/host/unkillable.h"

static void same(const char *a, const char *b)
{
	must((a == NULL) == (b == NULL) && (!a || strcmp(a, b) == 0));
}

static void read_again(const struct hvd_rank_end *end)
{
	json_t *msg = hvd_rank_end_json(end);
	struct hvd_rank_end back = {.rank = end->rank};

	must(hvd_rank_end_parse(msg, &back, NULL) == 0);
	must(back.status == end->status && back.pid == end->pid && back.local_rank == end->local_rank);
	must(back.ended_at == end->ended_at && back.failed_at == end->failed_at && back.cause == end->cause);
	same(back.error, end->error);
	same(back.traceback, end->traceback);
	same(back.tail, end->tail);
	hvd_rank_end_clear(&back);
	json_decref(msg);
}

static void check_report(struct hvd_failure_report *report)
{
	char *text = hvd_failure_report_text(report, false);
	const char *host;
	json_t *first, *counts;

	hvd_failure_report_json(report, &first, &counts);
	must((text == NULL) == (hvd_failure_report_first(report, &host) == NULL));
	must((text == NULL) == (first == NULL) && (text == NULL) == (hvd_failure_report_status(report) == 0));
	for (const char *s = text; s && *s; s++)
		must(*s == '\n' || *s == '\t' || (unsigned char)*s >= ' ');
	json_decref(first);
	json_decref(counts);
	free(text);
}

/* A rank that SIGKILL has not ended. */
static void check_unkillable(const json_t *msg)
{
	struct hvd_unkillable what, back;
	json_t *again;
	char *text;

	if (hvd_unkillable_parse(msg, &what, NULL) != 0)
		return;
	text = hvd_unkillable_text(&what, 1);
	for (const char *s = text; *s; s++)
		must((unsigned char)*s >= ' ' && (unsigned char)*s < 127);
	free(text);
	again = hvd_unkillable_json(&what);
	must(hvd_unkillable_parse(again, &back, NULL) == 0);
	must(back.pid == what.pid && back.state == what.state && back.gpus == what.gpus && back.left == what.left);
	json_decref(again);
}

/* An array of messages, or one. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *msg = json_loadb((const char *)data, size, JSON_ALLOW_NUL, NULL), *one;
	struct hvd_failure_report *report = hvd_failure_report_create();
	size_t n = json_is_array(msg) ? json_array_size(msg) : 1;
	struct hvd_clock clock = {0};

	for (size_t i = 0; msg && i < n; i++) {
		struct hvd_rank_end end = {.rank = (uint32_t)i};

		one = json_is_array(msg) ? json_array_get(msg, i) : msg;
		check_unkillable(one);
		if (i % 5 == 4)
			hvd_failure_report_ending(report, 1700000000000000000);
		if (hvd_rank_end_parse(one, &end, NULL) != 0)
			continue;
		must(!end.error || (strlen(end.error) <= HVD_RANK_END_ERROR && !strchr(end.error, '\n')));
		must(!end.traceback || strlen(end.traceback) <= HVD_RANK_END_TRACEBACK);
		must(!end.tail || strlen(end.tail) <= HVD_RANK_END_TAIL);
		read_again(&end);
		hvd_clock_end(&clock, &end, 1700000000000000000);
		must(end.ended_at && end.failed_at <= end.ended_at);
		hvd_failure_report_add(report, &end, i % 2 ? "n1" : "n2");
		hvd_rank_end_clear(&end);
	}
	check_report(report);
	hvd_failure_report_destroy(report);
	json_decref(msg);
	return 0;
}
