/* SPDX-License-Identifier: Apache-2.0 */
/* What NCCL's RAS says of communicators; a stand-in for it (tests/standins/nccl_ras.py) speaks its protocol. */
#include "agent/nccl_ras.h"

#include "agent/nccl_comms.h"
#include "lib/base/deadline.h"
#include "tests/unit/unit.h"

#include <sys/prctl.h>
#include <sys/wait.h>

/* ---- the summary ---- */

static json_t *summary(const char *status, const char *earlier)
{
	json_auto_t *now = json_loads(status, 0, NULL), *before = earlier ? json_loads(earlier, 0, NULL) : NULL;

	assert_non_null(now);
	return hvd_nccl_comms(now, before);
}

static json_int_t number(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

#define RANK(r, reduce, send)                                                                                          \
	"{\"rank\":" #r ",\"host\":\"10.0.0." #r "\",\"pid\":40" #r ",\"collective_counts\":{\"AllReduce\":" #reduce   \
	",\"Broadcast\":1,\"Send\":" #send "}}"
#define COMM(hash, ranks, missing)                                                                                     \
	"{\"hash\":\"" hash "\",\"size\":3,\"ranks\":[" ranks "],\"missing_ranks\":[" missing "]}"
#define STATUS(comms) "{\"nccl_version\":\"2.28.7\",\"communicators\":[" comms "]}"

TEST(ranks_that_have_begun_as_many_operations_are_even)
{
	const char *status = STATUS(COMM("a", RANK(0, 5, 9) "," RANK(1, 5, 0), ""));
	json_t *even = summary(status, NULL), *still = summary(status, status);
	json_t *moves = summary(status, STATUS(COMM("a", RANK(0, 4, 9) "," RANK(1, 4, 0), "")));

	assert_int_equal(number(even, "comms"), 1);
	assert_int_equal(number(even, "even"), 1);
	assert_int_equal(number(even, "still"), 0);
	assert_int_equal(number(even, "begun"), 12);
	assert_int_equal(number(even, "most"), 6);
	assert_int_equal(number(even, "missing"), 0);
	assert_int_equal(json_array_size(json_object_get(even, "odd")), 0);
	assert_int_equal(number(still, "still"), 1);
	assert_int_equal(number(moves, "still"), 0);
	json_decref(even);
	json_decref(still);
	json_decref(moves);
}

TEST(who_is_behind_and_who_is_lost)
{
	const char *status =
		STATUS(COMM("a", RANK(0, 5, 0) "," RANK(1, 4, 0),
			    "{\"rank\":2,\"host\":\"10.0.0.9\",\"pid\":77,\"status\":{\"considered_dead\":true}}"));
	json_t *found = summary(status, status), *odd = json_array_get(json_object_get(found, "odd"), 0);
	json_t *one = json_array_get(json_object_get(odd, "ranks"), 0),
	       *lost = json_array_get(json_object_get(odd, "lost"), 0);

	assert_int_equal(number(found, "even"), 0);
	assert_true(json_is_false(json_object_get(odd, "moves")));
	assert_int_equal(number(odd, "behind"), 1);
	assert_int_equal(number(odd, "count"), 5);
	assert_int_equal(number(odd, "most"), 6);
	assert_string_equal(json_string_value(json_object_get(odd, "op")), "AllReduce");
	assert_int_equal(number(one, "number"), 1);
	assert_string_equal(json_string_value(json_object_get(one, "address")), "10.0.0.1");
	assert_int_equal(number(one, "pid"), 401);
	assert_int_equal(number(odd, "missing"), 1);
	assert_int_equal(number(lost, "number"), 2);
	assert_true(json_is_true(json_object_get(lost, "dead")));
	assert_int_equal(number(found, "missing"), 1);
	json_decref(found);
}

TEST(what_has_another_form_is_left_out)
{
	json_t *found;

	assert_null(summary("{}", NULL));
	assert_null(summary("[]", NULL));
	assert_null(summary("{\"communicators\":5}", NULL));
	found = summary(
		"{\"communicators\":[5,{},{\"ranks\":[7,{\"collective_counts\":[]}],\"missing_ranks\":[null]}]}", "[]");
	assert_int_equal(number(found, "comms"), 3);
	json_decref(found);
}

/* ---- the address ---- */

TEST(only_loopback_is_asked)
{
	static const char *const no[] = {"",
					 "127.0.0.1",
					 "127.0.0.1:",
					 "127.0.0.1:0",
					 "127.0.0.1:65536",
					 "10.0.0.1:28028",
					 "example.com:28028",
					 ":28028",
					 "[]:1",
					 "[:1",
					 "[::2]:28028"};
	struct hvd_addr addr;
	in_port_t port;

	assert_int_equal(hvd_nccl_ras_addr("127.0.0.1:28028", &addr, &port), 0);
	assert_int_equal(port, 28028);
	assert_int_equal(hvd_nccl_ras_addr("localhost:1", &addr, &port), 0);
	assert_int_equal(hvd_nccl_ras_addr("[::1]:28028", &addr, &port), 0);
	assert_int_equal(addr.family, AF_INET6);
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
		if (hvd_nccl_ras_addr(no[i], &addr, &port) == 0)
			fail_msg("'%s' is asked", no[i]);
}

/* ---- the conversation ---- */

struct server {
	pid_t pid;
	int in; /* its stdin */
	in_port_t port;
};

static void serve(struct server *server, const char *options)
{
	int in[2], out[2];
	char line[32] = "";
	FILE *said;

	assert_int_equal(pipe(in), 0);
	assert_int_equal(pipe(out), 0);
	server->pid = fork();
	if (server->pid == 0) {
		char command[256];

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(in[0], 0);
		dup2(out[1], 1);
		close(in[0]);
		close(in[1]);
		close(out[0]);
		close(out[1]);
		unsetenv("NCCL_RAS_ADDR");
		snprintf(command, sizeof(command), "exec python3 tests/standins/nccl_ras.py %s", options);
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	server->in = in[1];
	said = fdopen(out[0], "r");
	assert_non_null(fgets(line, sizeof(line), said));
	fclose(said);
	server->port = (in_port_t)atoi(line);
	assert_int_not_equal(server->port, 0);
}

static void end(struct server *server)
{
	close(server->in);
	assert_int_equal(waitpid(server->pid, NULL, 0), server->pid);
}

/* Ask such a server. */
static json_t *ask(const char *options, bool twice, double seconds, struct hvd_err *err)
{
	struct server server;
	struct hvd_addr addr;
	json_t *found;

	serve(&server, options);
	hvd_addr_parse("127.0.0.1", &addr);
	found = hvd_nccl_ras_ask(&addr, server.port, twice, hvd_deadline_in(seconds), err);
	end(&server);
	return found;
}

TEST(nccl_says_who_is_behind)
{
	json_t *found = ask("--ranks=8 --behind=3 --dead=5", true, 60, NULL), *odd;

	assert_string_equal(json_string_value(json_object_get(found, "version")), "2.28.7");
	odd = json_array_get(json_object_get(found, "odd"), 0);
	assert_int_equal(number(odd, "size"), 8);
	assert_int_equal(number(odd, "behind"), 1);
	assert_int_equal(number(odd, "missing"), 1);
	assert_true(json_is_false(json_object_get(odd, "moves")));
	json_decref(found);
}

TEST(two_questions_show_whether_operations_begin)
{
	json_t *moving = ask("--moves", true, 60, NULL), *still = ask("", true, 60, NULL),
	       *once = ask("", true, 3, NULL), *one = ask("", false, 60, NULL);

	assert_int_equal(number(moving, "even"), 1);
	assert_int_equal(number(moving, "still"), 0);
	assert_int_equal(number(still, "still"), 1);
	assert_int_equal(number(once, "even"), 1);
	assert_int_equal(number(once, "still"), 0);
	assert_true(json_is_false(json_object_get(one, "twice")));
	json_decref(moving);
	json_decref(still);
	json_decref(once);
	json_decref(one);
}

TEST(an_older_nccl_has_text_only)
{
	json_t *found = ask("--old", false, 60, NULL);

	assert_in(json_string_value(json_object_get(found, "text")), "Missing communicator data");
	json_decref(found);
}

TEST(one_that_does_not_answer_is_not_waited_for)
{
	struct hvd_err err = {0};

	assert_null(ask("--mute", false, 0.5, &err));
	assert_int_equal(err.code, HVD_E_TIMEOUT);
}

TEST(where_nobody_serves)
{
	struct hvd_err err = {0};
	struct hvd_addr addr;

	hvd_addr_parse("127.0.0.1", &addr);
	assert_null(hvd_nccl_ras_ask(&addr, 1, false, hvd_deadline_in(30), &err));
	assert_in(err.msg, "does not serve its RAS");
}

RUN_TESTS()
