/* SPDX-License-Identifier: Apache-2.0 */
/* Whether ranks are ready: what a user writes, the driver's question and the agent's answer, the first line of a server's
 * answer, and what a rank sends. */
#include "agent/ready_notify.h"
#include "agent/ready_try.h"
#include "fuzz.h"
#include "lib/protocol/ready_question.h"

static void check_spec(const char *text)
{
	struct hvd_ready_spec spec = {.timeout = 5};
	struct hvd_err err = {0};

	if (hvd_ready_spec_parse(text, &spec, &err) != 0) {
		must(err.code == HVD_E_USAGE && err.msg[0] && spec.kind == HVD_READY_STARTED && !spec.text);
	} else {
		must(spec.text == text &&
		     (spec.port != 0) == (strncmp(text, "tcp:", 4) == 0 || strncmp(text, "http:", 5) == 0));
		must((spec.path != NULL) == (spec.kind == HVD_READY_HTTP || spec.kind == HVD_READY_FILE));
		must(!spec.path || (*spec.path && !strpbrk(spec.path, "\r\n")));
	}
	must(spec.timeout == 5);
}

static void check_messages(const json_t *msg)
{
	struct hvd_ready_question question, again;
	struct hvd_ready_answer answer;
	json_t *out;

	if (hvd_ready_question_read(msg, &question, NULL) == 0) {
		must(question.ranks > 0 && question.spec.timeout > 0);
		out = hvd_ready_question_to_json(&question);
		must(hvd_ready_question_read(out, &again, NULL) == 0);
		must(again.n == question.n && again.spec.kind == question.spec.kind && again.ranks == question.ranks);
		json_decref(out);
	}
	if (hvd_ready_answer_read(msg, &answer, NULL) == 0) {
		must(answer.why && answer.lines && answer.of && answer.id >= -1 && (!answer.up || answer.id == -1));
		json_decref(hvd_ready_answer_to_json(&answer));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *msg = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);
	char *text = fuzz_text(data, size);
	const int status = hvd_http_status(text, size);
	const bool ready = hvd_notify_is_ready(text, size);

	must(status == -1 || status == 0 || (status >= 100 && status <= 999));
	must(size >= HVD_HTTP_STATUS_LEN || status <= 0);
	must(!ready || memmem(text, size, "READY=1", 7));
	check_spec(text);
	check_messages(msg);
	json_decref(msg);
	free(text);
	return 0;
}
