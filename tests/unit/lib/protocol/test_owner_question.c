/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that ask whose sockets are. */
#include "lib/protocol/owner_question.h"

#include "tests/unit/unit.h"

static json_t *parse(const char *text)
{
	json_t *msg = json_loads(text, 0, NULL);

	assert_non_null(msg);
	return msg;
}

TEST(a_question_and_its_answer)
{
	struct hvd_owner_question q = {.id = 7,
				       .asker = HVD_OWNER_NO_ASKER,
				       .world = 4,
				       .port = 29500,
				       .n = 2,
				       .ports = {1, 65535}},
				  got;
	struct hvd_owner_answer a = {.id = 7,
				     .asker = 3,
				     .world = 2,
				     .n = 3,
				     .owners = {78, HVD_OWNER_NONE, HVD_OWNER_UNKNOWN}},
				back;
	json_t *msg;

	hvd_addr_parse("10.0.0.2", &q.from);
	hvd_addr_parse("fd00::1", &q.to);
	msg = hvd_owner_question_to_json(&q);
	assert_string_equal(json_string_value(json_object_get(msg, "t")), "whose");
	assert_null(json_object_get(msg, "asker"));
	assert_int_equal(hvd_owner_question_read(msg, &got, NULL), 0);
	assert_int_equal(got.asker, HVD_OWNER_NO_ASKER);
	assert_int_equal(got.world, 4);
	assert_true(hvd_addr_equal(&got.from, &q.from) && hvd_addr_equal(&got.to, &q.to));
	assert_int_equal(got.n, 2);
	assert_int_equal(got.ports[1], 65535);
	json_decref(msg);
	msg = hvd_owner_answer_to_json(&a);
	assert_int_equal(hvd_owner_answer_read(msg, &back, NULL), 0);
	assert_memory_equal(&back, &a, sizeof(a));
	json_decref(msg);
}

TEST(what_is_refused)
{
	static const char *const questions[] = {
		"{}",
		"{\"id\":-1,\"from\":\"10.0.0.2\",\"to\":\"10.0.0.1\",\"port\":1,\"ports\":[1]}",
		"{\"id\":1,\"asker\":-1,\"from\":\"10.0.0.2\",\"to\":\"10.0.0.1\",\"port\":1,\"ports\":[1]}",
		"{\"id\":1,\"world\":64,\"from\":\"10.0.0.2\",\"to\":\"10.0.0.1\",\"port\":1,\"ports\":[1]}",
		"{\"id\":1,\"from\":\"host\",\"to\":\"10.0.0.1\",\"port\":1,\"ports\":[1]}",
		"{\"id\":1,\"from\":\"10.0.0.2\",\"to\":\"10.0.0.1\",\"port\":0,\"ports\":[1]}",
		"{\"id\":1,\"from\":\"10.0.0.2\",\"to\":\"10.0.0.1\",\"port\":1,\"ports\":[0]}",
		"{\"id\":1,\"from\":\"10.0.0.2\",\"to\":\"10.0.0.1\",\"port\":1,\"ports\":[\"1\"]}",
		"{\"id\":1,\"from\":\"10.0.0.2\",\"to\":\"10.0.0.1\",\"port\":1,\"ports\":1}",
	};
	static const char *const answers[] = {
		"{}",
		"{\"id\":1,\"owners\":[-4]}",
		"{\"id\":1,\"owners\":[1.5]}",
		"{\"id\":4294967296,\"owners\":[]}",
	};
	struct hvd_owner_question q;
	struct hvd_owner_answer a;
	struct hvd_err err;
	json_t *msg, *ports;

	for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++) {
		msg = parse(questions[i]);
		assert_int_equal(hvd_owner_question_read(msg, &q, &err), -1);
		json_decref(msg);
	}
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		msg = parse(answers[i]);
		assert_int_equal(hvd_owner_answer_read(msg, &a, &err), -1);
		json_decref(msg);
	}
	/* One more than there may be. */
	ports = json_array();
	for (int i = 0; i <= HVD_OWNER_PORTS; i++)
		json_array_append_new(ports, json_integer(1));
	msg = json_pack("{s:i, s:s, s:s, s:i, s:O}", "id", 1, "from", "10.0.0.2", "to", "10.0.0.1", "port", 1, "ports",
			ports);
	assert_int_equal(hvd_owner_question_read(msg, &q, &err), -1);
	json_array_remove(ports, 0);
	assert_int_equal(hvd_owner_question_read(msg, &q, &err), 0);
	json_decref(msg);
	msg = json_pack("{s:i, s:o}", "id", 1, "owners", ports);
	json_array_append_new(ports, json_integer(1));
	assert_int_equal(hvd_owner_answer_read(msg, &a, &err), -1);
	json_decref(msg);
}

RUN_TESTS()
