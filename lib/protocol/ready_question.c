/* SPDX-License-Identifier: Apache-2.0 */
#include "ready_question.h"

#include "lib/base/digits.h"
#include "lib/base/size.h"
#include "wire.h"

#include <limits.h>
#include <string.h>

#define HTTP_PATH    255
#define MOST_SECONDS 1e7

/* By enum hvd_ready_kind. */
static const struct {
	const char *word;
	bool port;
	size_t path; /* the most bytes of it; 0: it has none */
} kinds[] = {
	{.word = "started"},
	{.word = "tcp:", .port = true},
	{.word = "http:", .port = true, .path = HTTP_PATH},
	{.word = "file:", .path = PATH_MAX - 1},
	{.word = "notify"},
};
#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* What a line of a request can have, or a message. */
static bool is_path(const char *path, enum hvd_ready_kind kind)
{
	const unsigned char lowest = kind == HVD_READY_HTTP ? '!' : ' ';
	json_auto_t *text = json_string(path); /* NULL: it is not UTF-8 */
	size_t n = 0;

	while ((unsigned char)path[n] >= lowest && path[n] != 0x7f && (kind == HVD_READY_FILE || path[n] > 0))
		n++;
	return text && n > 0 && !path[n] && n <= kinds[kind].path && (kind == HVD_READY_FILE || *path == '/');
}

/* What follows the word. */
static bool read_rest(const char *at, enum hvd_ready_kind kind, struct hvd_ready_spec *spec)
{
	const int64_t port = kinds[kind].port ? hvd_take_digits(&at, 65535) : 1;

	spec->kind = kind;
	if (kinds[kind].port)
		spec->port = port > 0 ? (in_port_t)port : 0;
	if (kinds[kind].path)
		spec->path = kind == HVD_READY_HTTP && !*at ? "/" : at;
	return port > 0 && (spec->path ? is_path(spec->path, kind) : !*at);
}

int hvd_ready_spec_parse(const char *text, struct hvd_ready_spec *spec, struct hvd_err *err)
{
	const double timeout = spec->timeout;

	for (size_t i = 0; i < N_KINDS; i++) {
		const size_t len = strlen(kinds[i].word);

		*spec = (struct hvd_ready_spec){.text = text, .timeout = timeout};
		if (strncmp(text, kinds[i].word, len) == 0 && read_rest(text + len, (enum hvd_ready_kind)i, spec))
			return 0;
	}
	*spec = (struct hvd_ready_spec){.timeout = timeout};
	hvd_err_set(err, HVD_E_USAGE, "\"%.200s\" is none of tcp:PORT, http:PORT/PATH, file:PATH, notify and started",
		    text);
	return hvd_err_hint(err, "as in tcp:9000, http:8000/health or file:ready");
}

json_t *hvd_ready_question_to_json(const struct hvd_ready_question *question)
{
	return json_pack("{s:s, s:I, s:s, s:I, s:f}", "t", "ready", "n", (json_int_t)question->n, "how",
			 question->spec.text ? question->spec.text : kinds[HVD_READY_STARTED].word, "ranks",
			 (json_int_t)question->ranks, "seconds", question->spec.timeout);
}

int hvd_ready_question_read(const json_t *msg, struct hvd_ready_question *out, struct hvd_err *err)
{
	const json_t *seconds = json_object_get(msg, "seconds");
	const char *how;
	int64_t ranks;

	*out = (struct hvd_ready_question){0};
	if (hvd_get_int(msg, "n", 0, INT64_MAX, &out->n, err) != 0 ||
	    hvd_get_int(msg, "ranks", 1, HVD_MAX_RANKS, &ranks, err) != 0 ||
	    hvd_get_str(msg, "how", PATH_MAX + 16, &how, err) != 0)
		return -1;
	out->ranks = (uint32_t)ranks;
	out->spec.timeout = json_is_number(seconds) ? json_number_value(seconds) : 0;
	if (!(out->spec.timeout > 0 && out->spec.timeout <= MOST_SECONDS))
		return hvd_err_set(err, HVD_E_PROTO, "\"seconds\" is no time to wait");
	return hvd_ready_spec_parse(how, &out->spec, err);
}

json_t *hvd_ready_answer_to_json(const struct hvd_ready_answer *answer)
{
	json_t *msg = json_pack("{s:s, s:I, s:b}", "t", "ready", "n", (json_int_t)answer->n, "up", answer->up);

	if (!answer->up)
		json_object_set_new(msg, "why", json_string(answer->why));
	if (!answer->up && answer->id >= 0)
		json_object_set_new(msg, "id", json_integer(answer->id));
	return msg;
}

int hvd_ready_answer_read(const json_t *msg, struct hvd_ready_answer *out, struct hvd_err *err)
{
	const json_t *up = json_object_get(msg, "up");

	*out = (struct hvd_ready_answer){.id = -1, .why = "", .lines = "", .of = ""};
	if (hvd_get_int(msg, "n", 0, INT64_MAX, &out->n, err) != 0)
		return -1;
	if (!json_is_boolean(up))
		return hvd_err_set(err, HVD_E_PROTO, "\"up\" is missing");
	out->up = json_is_true(up);
	if (out->up)
		return 0;
	if (hvd_get_str(msg, "why", HVD_READY_WHY, &out->why, err) != 0)
		return -1;
	if (!json_object_get(msg, "id"))
		return 0;
	return hvd_get_int(msg, "id", 0, INT_MAX, &out->id, err) != 0 ||
			       hvd_get_str(msg, "lines", HVD_READY_LINES, &out->lines, err) != 0 ||
			       hvd_get_str(msg, "of", HVD_READY_WHY, &out->of, err) != 0
		       ? -1
		       : 0;
}
