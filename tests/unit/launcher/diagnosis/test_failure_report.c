/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/diagnosis/failure_report.h"

#include "lib/base/log.h"
#include "tests/unit/test_clock.h"
#include "tests/unit/unit.h"

#include <time.h>

#define MS         INT64_C(1000000)
#define T0         (INT64_C(5000000) * MS)
#define EXIT(code) ((code) << 8)

struct history {
	struct hvd_failure_report *report;
	char *text;
};

SETUP(setup, struct history, h)
{
	setenv("TZ", "UTC", 1);
	tzset();
	test_wall = INT64_C(1700000000000) * MS - T0;
	h->report = hvd_failure_report_create();
}

TEARDOWN(teardown, struct history, h)
{
	hvd_failure_report_destroy(h->report);
	free(h->text);
}

/* A rank has ended so many ms after T0. */
static void ended(struct history *h, uint32_t rank, const char *host, int status, int64_t ms, const char *error)
{
	struct hvd_rank_end end = {.rank = rank,
				   .status = status,
				   .ended_at = T0 + ms * MS,
				   .failed_at = error ? T0 + ms * MS - MS : 0,
				   .error = (char *)error};

	hvd_failure_report_add(h->report, &end, host);
}

static const char *text(struct history *h)
{
	free(h->text);
	h->text = hvd_failure_report_text(h->report, false);
	return h->text ? h->text : "";
}

static void first_is(struct history *h, uint32_t rank, int status)
{
	const char *host;
	const struct hvd_rank_end *first = hvd_failure_report_first(h->report, &host);

	assert_non_null(first);
	if (first->rank != rank)
		print_error("%s\n", text(h));
	assert_int_equal(first->rank, rank);
	assert_int_equal(hvd_failure_report_status(h->report), status);
}

TEST_IN(ranks_that_are_all_killed_are_killed_together, struct history *h)
{
	ended(h, 1, "n1", SIGKILL, 0, NULL);
	assert_false(hvd_failure_report_killed_together(h->report));
	ended(h, 0, "n1", SIGKILL, 100, NULL);
	assert_true(hvd_failure_report_killed_together(h->report));
	ended(h, 2, "n2", EXIT(1), 200, NULL);
	assert_false(hvd_failure_report_killed_together(h->report));
}

TEST_IN(nothing_has_failed, struct history *h)
{
	json_t *first, *counts;
	const char *host;

	ended(h, 0, "n1", 0, 5, NULL);
	assert_null(hvd_failure_report_first(h->report, &host));
	assert_null(hvd_failure_report_text(h->report, false));
	assert_int_equal(hvd_failure_report_status(h->report), 0);
	hvd_failure_report_json(h->report, &first, &counts);
	assert_true(!first && !counts);
}

/* Heard of last, but it happened first. */
TEST_IN(the_first_by_time, struct history *h)
{
	ended(h, 1, "n1", EXIT(3), 20, "ValueError: b");
	ended(h, 5, "n2", EXIT(1), 10, "ValueError: a");
	ended(h, 2, "n1", EXIT(3), 30, "ValueError: b");
	first_is(h, 5, EXIT(1));
	assert_in(text(h), "rank 5 on n2 failed first: exit code 1\n  ValueError: a\n  local rank 0, at 22:13:20.009");
	assert_in(text(h), "\n  2 other ranks failed 0.01 to 0.02 s later\n    2 exit code 3, ValueError: b, on n1");
}

/* The clocks of two hosts were compared no better than this, so the others seem to be earlier. */
TEST_IN(connection_errors_follow_from_others, struct history *h)
{
	for (uint32_t r = 0; r < 8; r++)
		if (r != 5)
			ended(h, r, "n1", EXIT(1), 8 + r,
			      "RuntimeError: [../gloo/transport/tcp/pair.cc:1] Connection closed by peer");
	ended(h, 5, "n2", EXIT(1), 10, "RuntimeError: bad batch");
	first_is(h, 5, EXIT(1));
	assert_in(text(h), "\n  7 ranks ended with connection errors 0.00 to 0.01 s later");
}

/* What is known of another role, whose report is merged into that of `h`. */
static void merge(struct history *h, struct history *other)
{
	hvd_failure_report_merge(h->report, other->report);
	hvd_failure_report_destroy(other->report);
	free(other->text);
	*other = (struct history){.report = hvd_failure_report_create()};
	hvd_failure_report_of(other->report, 1, "rollout/1");
}

/* A trainer loses its service: the report names what has failed first, in whatever world. */
TEST_IN(failures_of_several_roles, struct history *h)
{
	struct history other = {.report = hvd_failure_report_create()};
	json_t *first, *counts;

	hvd_failure_report_of(h->report, 0, "trainer");
	hvd_failure_report_of(other.report, 1, "rollout/1");
	ended(h, 3, "n1", EXIT(1), 30, "ConnectionRefusedError: [Errno 111] Connection refused");
	assert_false(hvd_failure_report_own(h->report));
	assert_in(text(h), "rank trainer:3 on n1 failed first: exit code 1");
	ended(&other, 3, "n2", EXIT(5), 20, NULL);
	ended(&other, 4, "n2", EXIT(5), 40, NULL);
	merge(h, &other);
	first_is(h, 3, EXIT(5));
	assert_true(hvd_failure_report_own(h->report));
	assert_in(text(h), "rank rollout/1:3 on n2 failed first: exit code 5\n");
	assert_in(text(h), "\n  1 other rank failed 0.02 s later\n    1 in the same way, on n2\n");
	assert_in(text(h), "\n  1 rank ended with a connection error 0.01 s later");
	hvd_failure_report_json(h->report, &first, &counts);
	assert_string_equal(json_string_value(json_object_get(first, "role")), "rollout/1");
	assert_int_equal(json_integer_value(json_object_get(counts, "failed")), 2);
	assert_int_equal(json_integer_value(json_object_get(counts, "connection_errors")), 1);
	json_decref(first);
	json_decref(counts);
	/* Earlier, and of a rank with the same number as another. */
	ended(&other, 3, "n3", SIGSEGV, 10, NULL);
	merge(h, &other);
	first_is(h, 3, SIGSEGV);
	assert_in(text(h), "rank rollout/1:3 on n3 failed first");
	hvd_failure_report_destroy(other.report);
}

/* A service that ends with 0 fails those who need it, unless that was long ago. */
TEST_IN(another_role_ends_too_early, struct history *h)
{
	struct history other = {.report = hvd_failure_report_create()};

	hvd_failure_report_of(h->report, 0, "trainer");
	merge(h, &other);
	ended(h, 0, "n1", EXIT(1), 100000, "ConnectionResetError: Connection reset by peer");
	ended(&other, 0, "n2", 0, 1000, NULL);
	merge(h, &other);
	assert_in(text(h), "rank trainer:0 on n1 failed first");
	ended(&other, 0, "n2", 0, 99000, NULL);
	merge(h, &other);
	assert_in(text(h), "rank rollout/1:0 on n2 ended too early: exit code 0");
	hvd_failure_report_destroy(other.report);
}

TEST_IN(all_are_connection_errors, struct history *h)
{
	ended(h, 1, "n1", EXIT(1), 20, "ConnectionResetError: [Errno 104] Connection reset by peer");
	ended(h, 2, "n1", EXIT(1), 10, "RuntimeError: Broken pipe");
	ended(h, 0, "n1", 0, 140, NULL);
	first_is(h, 2, EXIT(1));
	assert_in(text(h), "no rank failed for a reason of its own");
	/* A rank that was done before is why. */
	ended(h, 3, "n2", 0, 1, NULL);
	first_is(h, 3, EXIT(1));
	assert_in(text(h), "rank 3 on n2 ended too early: exit code 0, while others still needed it");
	assert_in(text(h), "\n  2 ranks ended with connection errors 0.01 to 0.02 s later");
	/* But not if another rank failed for a reason of its own. */
	ended(h, 4, "n2", EXIT(2), 30, NULL);
	first_is(h, 4, EXIT(2));
}

TEST_IN(the_launch_ends_the_others, struct history *h)
{
	ended(h, 2, "n1", SIGSEGV, 10, NULL);
	hvd_failure_report_ending(h->report, T0 + 12 * MS);
	ended(h, 0, "n1", SIGTERM, 13, NULL);
	ended(h, 1, "n1", EXIT(1), 14, "KeyboardInterrupt");
	ended(h, 3, "n1", EXIT(143), 14, NULL);
	ended(h, 4, "n1", SIGKILL, 5014, NULL);
	ended(h, 5, "n1", EXIT(9), 15, NULL);
	first_is(h, 2, SIGSEGV);
	assert_in(text(h), "failed first: killed by signal 11 (SIGSEGV)");
	assert_in(text(h), "\n  5 ranks were ended by the launch or the scheduler");
	assert_in(text(h), "PYTHONFAULTHANDLER");
}

/* The others notice that a rank was killed before its own host has told of it. */
TEST_IN(killed_from_outside, struct history *h)
{
	ended(h, 0, "n1", EXIT(1), 11, "RuntimeError: Connection closed by peer");
	hvd_failure_report_ending(h->report, T0 + 12 * MS);
	ended(h, 1, "n2", SIGKILL, 30, NULL);
	ended(h, 2, "n2", SIGTERM, 14, NULL);
	first_is(h, 1, SIGKILL);
}

/* srun kills the others when the first process has ended with a failure. */
TEST_IN(a_scheduler_kills_the_others, struct history *h)
{
	ended(h, 0, "n1", SIGTERM, 30, NULL);
	ended(h, 1, "n1", SIGTERM, 29, NULL);
	ended(h, 3, "n2", EXIT(1), 20, "RuntimeError: Connection closed by peer");
	first_is(h, 3, EXIT(1));
	ended(h, 2, "n2", SIGKILL, 5030, NULL);
	first_is(h, 3, EXIT(1));
	ended(h, 4, "n2", SIGTERM, 10, NULL);
	first_is(h, 4, SIGTERM);
}

TEST_IN(ended_with_all, struct history *h)
{
	struct hvd_rank_end end = {.rank = 1, .status = SIGTERM, .ended_at = T0, .cause = HVD_END_WITH_ALL};
	const char *host;

	hvd_failure_report_add(h->report, &end, "n1");
	assert_null(hvd_failure_report_first(h->report, &host));
	ended(h, 0, "n1", EXIT(1), 20, NULL);
	first_is(h, 0, EXIT(1));
	assert_in(text(h), "\n  1 rank was ended by the launch");
}

/* Python takes some time to end after an exception, and the launch ends the rank meanwhile. */
TEST_IN(ended_while_dying_of_another, struct history *h)
{
	struct hvd_rank_end end = {.rank = 1,
				   .status = SIGTERM,
				   .ended_at = T0 + 900 * MS,
				   .failed_at = T0 + 30 * MS,
				   .cause = HVD_END_WITH_ALL,
				   .error = (char *)"RuntimeError: Connection closed by peer"};
	const char *host;

	hvd_failure_report_add(h->report, &end, "n1");
	assert_null(hvd_failure_report_first(h->report, &host));
	ended(h, 0, "n1", EXIT(1), 20, "ValueError: bad batch");
	hvd_failure_report_ending(h->report, T0 + 800 * MS);
	hvd_failure_report_add(h->report, &end, "n1");
	end.rank = 2;
	end.failed_at = T0 + 1100 * MS;
	end.ended_at = T0 + 1200 * MS;
	hvd_failure_report_add(h->report, &end, "n1");
	first_is(h, 0, EXIT(1));
	assert_in(text(h), "\n  1 rank ended with a connection error 0.01 s later");
	assert_in(text(h), "\n  2 ranks were ended by the launch");
}

/* Its connection error came first, but another was quicker to end of it. */
TEST_IN(the_status_is_of_one_that_ended_by_itself, struct history *h)
{
	struct hvd_rank_end end = {.rank = 1,
				   .status = SIGTERM,
				   .ended_at = T0 + 90 * MS,
				   .failed_at = T0 + 10 * MS,
				   .cause = HVD_END_WITH_ALL,
				   .error = (char *)"RuntimeError: Connection closed by peer"};

	ended(h, 2, "n1", EXIT(1), 40, end.error);
	hvd_failure_report_ending(h->report, T0 + 41 * MS);
	hvd_failure_report_add(h->report, &end, "n1");
	first_is(h, 1, EXIT(1));
	ended(h, 3, "n1", 0, 15, NULL);
	first_is(h, 3, EXIT(1));
}

static void lost(struct history *h, enum hvd_loss_of of, const char *host, uint32_t rank, int status, int64_t ms)
{
	struct hvd_loss loss = {.of = of, .host = host, .rank = rank, .pid = 77, .status = status, .at = T0 + ms * MS};

	hvd_failure_report_lost(h->report, &loss);
}

/* A node agent was killed: that explains connection errors, what was killed afterwards, and whatever happens on its
 * host. */
TEST_IN(a_lost_process_is_the_first, struct history *h)
{
	lost(h, HVD_LOSS_AGENT, "n2", 0, -1, 11);
	assert_false(hvd_failure_report_any(h->report));
	lost(h, HVD_LOSS_AGENT, "n2", 0, SIGKILL, 10);
	ended(h, 0, "n1", SIGTERM, 50, NULL);
	assert_in(text(h),
		  "hvd-agent on n2 failed first: killed by signal 9 (SIGKILL)\n  it connected the ranks there to the "
		  "rendezvous, pid 77, at 22:13:20.010\n  the first rank to fail was rank 0 on n1, 0.04 s later: "
		  "killed by "
		  "signal 15 (SIGTERM)");
	ended(h, 1, "n1", EXIT(1), 40, "RuntimeError: Connection closed by peer");
	assert_in(text(h), "hvd-agent on n2 failed first");
	ended(h, 2, "n2", EXIT(3), 30, "ValueError: it says so");
	assert_in(text(h),
		  "the first rank to fail was rank 2 on n2, 0.02 s later: exit code 3: ValueError: it says so");
	/* The status of the launch stays a rank's. */
	first_is(h, 2, EXIT(3));
	assert_int_equal(hvd_failure_report_highest(h->report), 143);
}

/* The ranks of a node agent that had started them end with it, so a failure elsewhere follows from that, even if its
 * message does not show it. */
TEST_IN(an_agent_that_had_started_the_ranks_explains_any_failure, struct history *h)
{
	lost(h, HVD_LOSS_SPAWNER, "n2", 0, -1, 1000);
	ended(h, 0, "n1", EXIT(1), 1030, NULL);
	assert_in(text(h),
		  "hvd-agent on n2 failed first: it ended without a message\n  it had started the ranks there, "
		  "which ended with it");
	ended(h, 1, "n1", EXIT(3), 5, "ValueError: it says so");
	assert_in(text(h), "rank 1 on n1 failed first");
}

/* Hosts that are lost together are not processes that were killed with the step. */
TEST_IN(a_lost_host_is_the_first, struct history *h)
{
	lost(h, HVD_LOSS_HOST, "n2", 0, -1, 1100);
	lost(h, HVD_LOSS_HOST, "n3", 0, -1, 1110);
	ended(h, 0, "n1", SIGABRT, 10000,
	      "gloo::IoException: Timed out waiting 30000ms for recv operation to complete");
	assert_in(text(h), "n2 failed first: the host was lost\n  with all ranks there, ");
	assert_in(text(h), "the first rank to fail was rank 0 on n1, 8.90 s later: killed by signal 6 (SIGABRT)");
	assert_in(text(h), "n3: the host was lost 8.89 s earlier");
	assert_in(text(h), "did the host or its network fail?");
	ended(h, 1, "n4", EXIT(3), 9000, "ValueError: it says so");
	assert_in(text(h), "n2 failed first: the host was lost");
	assert_in(text(h),
		  "the first rank to fail was rank 1 on n4, 7.90 s later: exit code 3: ValueError: it says so");
	ended(h, 2, "n1", EXIT(3), 50, "ValueError: it says so");
	assert_in(text(h), "rank 2 on n1 failed first");
}

/* A failure of a rank's own elsewhere is the first, and what was lost before it is told besides. */
TEST_IN(a_lost_process_that_explains_nothing, struct history *h)
{
	lost(h, HVD_LOSS_AGENT, "n2", 0, SIGKILL, 10);
	ended(h, 0, "n1", EXIT(4), 3010, "ValueError: bad batch");
	lost(h, HVD_LOSS_AGENT, "n1", 0, SIGKILL, 4000);
	assert_in(text(h), "rank 0 on n1 failed first: exit code 4");
	assert_in(text(h),
		  "\n  n2: the node agent (hvd-agent, pid 77) was killed by signal 9 (SIGKILL) 3.00 s earlier");
	assert_null(strstr(text(h), "rendezvous"));
	assert_null(hvd_failure_report_loss(h->report));
}

TEST_IN(processes_that_go_at_once_were_killed_with_the_step, struct history *h)
{
	lost(h, HVD_LOSS_SHIM, "n2", 3, -1, 10);
	assert_in(text(h), "the rank shim (hvd-shim) of rank 3 on n2 failed first: it ended without a message");
	for (uint32_t r = 4; r < 20; r++)
		lost(h, HVD_LOSS_SHIM, "n2", r, -1, 11);
	assert_null(hvd_failure_report_loss(h->report));
	assert_string_equal(text(h), "");
}

/* A rank failed, and mpirun killed the other shims of its host, one of which was noticed. */
TEST_IN(a_shim_explains_no_failure_of_another_ranks_own, struct history *h)
{
	lost(h, HVD_LOSS_SHIM, "n1", 2, -1, 15);
	ended(h, 1, "n1", EXIT(9), 10, NULL);
	assert_in(text(h), "rank 1 on n1 failed first: exit code 9");
	assert_null(hvd_failure_report_loss(h->report));
}

/* Its rank has ended with it, and another one failed by that, which says so in its own words. */
TEST_IN(a_shim_explains_what_fails_after_it_is_known_to_be_lost, struct history *h)
{
	lost(h, HVD_LOSS_SHIM, "n2", 2, -1, 10);
	ended(h, 1, "n1", EXIT(1), 40, NULL);
	assert_in(text(h), "the rank shim (hvd-shim) of rank 2 on n2 failed first");
	ended(h, 3, "n2", EXIT(1), 45, NULL);
	assert_in(text(h), "the rank shim (hvd-shim) of rank 2 on n2 failed first");
}

/* mpirun has lost a host, and ends all ranks by SIGTERM, and by SIGKILL what is still there a second later. */
TEST_IN(a_shim_that_is_killed_after_ranks_were_ended_is_not_what_failed_first, struct history *h)
{
	struct hvd_rank_end end = {.rank = 1, .status = SIGTERM, .cause = HVD_END_WITH_ALL, .ended_at = T0 + 10 * MS};

	hvd_failure_report_add(h->report, &end, "n1");
	lost(h, HVD_LOSS_SHIM, "n2", 2, -1, 1010);
	assert_null(hvd_failure_report_loss(h->report));
	assert_string_equal(text(h), "");
}

TEST_IN(a_shim_that_is_lost_before_ranks_are_ended_is_what_failed_first, struct history *h)
{
	struct hvd_rank_end end = {.rank = 1, .status = SIGTERM, .cause = HVD_END_WITH_ALL, .ended_at = T0 + 10 * MS};

	lost(h, HVD_LOSS_SHIM, "n2", 2, -1, 15);
	hvd_failure_report_add(h->report, &end, "n1");
	assert_in(text(h), "the rank shim (hvd-shim) of rank 2 on n2 failed first");
}

TEST_IN(a_shim_explains_ranks_that_were_killed_after_it, struct history *h)
{
	lost(h, HVD_LOSS_SHIM, "n1", 2, -1, 15);
	ended(h, 1, "n2", SIGTERM, 40, NULL);
	assert_in(text(h), "the rank shim (hvd-shim) of rank 2 on n1 failed first");
	/* The loss may have been noticed a moment later than it happened. */
	ended(h, 3, "n2", SIGTERM, 10, NULL);
	assert_in(text(h), "the rank shim (hvd-shim) of rank 2 on n1 failed first");
}

TEST(causes_and_advice)
{
	static const struct {
		int status;
		enum hvd_end_cause cause;
		const char *error, *says, *advises, *traceback;
	} cases[] = {
		{SIGKILL, HVD_END_OOM, NULL, "killed by signal 9 (SIGKILL): out of memory\n", "ask for more", NULL},
		{SIGKILL, HVD_END_HOST_OOM, NULL, ": the host ran out of memory\n", "run fewer ranks", NULL},
		{EXIT(127), HVD_END_NOT_STARTED, "cannot run ./x: No such file or directory",
		 ": the program could not be started\n", "is the program there on that host?", NULL},
		{EXIT(127), 0, NULL, "exit code 127\n", "a shell's status for a command", NULL},
		{EXIT(1), 0, "ModuleNotFoundError: No module named 'x'", "exit code 1\n", "is the module installed",
		 NULL},
		{SIGBUS, 0, NULL, "killed by signal 7 (SIGBUS)\n", "/dev/shm", NULL},
		{EXIT(1), 0, "torch.OutOfMemoryError: CUDA out of memory. Tried", "exit code 1\n", "smaller batches",
		 NULL},
		{EXIT(1), 0, "ValueError: Number of processes must be defined.", "exit code 1\n",
		 "int(os.environ[\"WORLD_SIZE\"])", NULL},
		{EXIT(1), 0, "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:93, invalid usage",
		 "exit code 1\n", "two ranks use one GPU",
		 "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.\nLast error:\n"
		 "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 60\n"},
		{EXIT(1), 0,
		 "RuntimeError: The server socket has failed to listen on any local network address. port: 4711, "
		 "useIpv6: 0, code: -98, name: EADDRINUSE, message: address already in use",
		 "exit code 1\n", "TORCHELASTIC_USE_AGENT_STORE=True", NULL},
		/* Connection errors by their words, but not by their cause. */
		{EXIT(1), 0,
		 "RuntimeError: [enforce fail at gloo/transport/tcp/device.cc:80] Unable to find address for: eth9",
		 "exit code 1\n", "leave GLOO_SOCKET_IFNAME out", NULL},
		{EXIT(1), 0, "RuntimeError: Connection reset by peer", "exit code 1\n", "its PyTorch is older than 2.2",
		 "    tcp_store = TCPStore(hostname, port, world_size, False, timeout)\n"},
		{EXIT(1), 0, "RuntimeError: Connection reset by peer", "exit code 1\n",
		 "did a host or the network fail?", NULL},
		{EXIT(1), 0, "BrokenPipeError: [Errno 32] Broken pipe", "exit code 1\n",
		 "did a host or the network fail?", NULL},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct history *h = *state;
		struct hvd_rank_end end = {.status = cases[i].status,
					   .cause = cases[i].cause,
					   .error = (char *)cases[i].error,
					   .traceback = (char *)cases[i].traceback,
					   .ended_at = T0};

		hvd_failure_report_destroy(h->report);
		h->report = hvd_failure_report_create();
		hvd_failure_report_add(h->report, &end, "n1");
		assert_in(text(h), cases[i].says);
		assert_in(text(h), cases[i].advises);
	}
}

/* What ranks write is escaped, and stands behind a mark. */
TEST_IN(texts_of_the_rank, struct history *h)
{
	struct hvd_rank_end end = {.rank = 3,
				   .local_rank = 1,
				   .pid = 77,
				   .status = EXIT(1),
				   .ended_at = T0,
				   .error = (char *)"E\x1b[2J",
				   .traceback = (char *)"Traceback:\n  File x\nE",
				   .tail = (char *)"a\nhvdrun: error: b\n"};
	json_t *first, *counts;

	hvd_failure_report_add(h->report, &end, "n1");
	assert_string_equal(text(h), "rank 3 on n1 failed first: exit code 1\n"
				     "  E\\x1b[2J\n"
				     "  local rank 1, pid 77, at 22:13:20.000\n"
				     "  its traceback:\n"
				     "  | Traceback:\n"
				     "  |   File x\n"
				     "  | E\n"
				     "  the last lines of its standard error:\n"
				     "  | a\n"
				     "  | hvdrun: error: b");
	hvd_failure_report_json(h->report, &first, &counts);
	assert_string_equal(json_string_value(json_object_get(first, "how")), "exit code 1");
	assert_string_equal(json_string_value(json_object_get(first, "error")), "E\\x1b[2J");
	assert_int_equal(json_integer_value(json_object_get(first, "local_rank")), 1);
	assert_int_equal(json_integer_value(json_object_get(counts, "failed")), 1);
	json_decref(first);
	json_decref(counts);
	/* A traceback that the last lines have is not shown twice. */
	hvd_failure_report_destroy(h->report);
	h->report = hvd_failure_report_create();
	end.tail = (char *)"a\nTraceback:\n  File x\nE";
	hvd_failure_report_add(h->report, &end, "n1");
	assert_null(strstr(text(h), "its traceback"));
	assert_in(text(h), "standard error:\n  | a\n  | Traceback:\n");
	/* Nor are both left out where they are the same. */
	hvd_failure_report_destroy(h->report);
	h->report = hvd_failure_report_create();
	end.tail = end.traceback;
	hvd_failure_report_add(h->report, &end, "n1");
	assert_in(text(h), "standard error:\n  | Traceback:\n");
}

/* Ten thousand ranks with long texts: some are kept. */
TEST_IN(many_ranks, struct history *h)
{
	char *long_text = calloc(1, 16384);

	memset(long_text, 'x', 16000);
	for (uint32_t r = 0; r < 10000; r++) {
		struct hvd_rank_end end = {.rank = r,
					   .status = EXIT(1 + (int)(r % 20)),
					   .ended_at = T0 + (20000 - (int64_t)r) * MS,
					   .traceback = long_text,
					   .tail = long_text};

		hvd_failure_report_add(h->report, &end, "n1");
	}
	free(long_text);
	first_is(h, 9999, EXIT(20));
	assert_in(text(h), "\n  9999 other ranks failed 0.00 to 10.00 s later");
	assert_true(strlen(text(h)) < 40000);
}

/* Whatever the order in which ends come, and whatever follows from the first failure: it is found. */
TEST(random_histories)
{
	static const char *const peers[] = {"RuntimeError: Connection closed by peer", "BrokenPipeError: [Errno 32]",
					    "horovod.common.exceptions.HorovodInternalError: x",
					    "torch.distributed.DistNetworkError: recvValue failed"};
	static const int own[] = {EXIT(1), EXIT(77), SIGSEGV, SIGABRT, SIGKILL};
	uint32_t seed = 2463534242;

	for (int round = 0; round < 3000; round++) {
		struct history *h = *state;
		uint32_t n = 2 + dice(&seed) % 30, culprit = dice(&seed) % n, order[32];
		int status = own[dice(&seed) % 5];
		int64_t at = 1000, ending = at + 1 + dice(&seed) % 20;
		bool told = dice(&seed) % 2, ending_known = dice(&seed) % 2;

		hvd_failure_report_destroy(h->report);
		h->report = hvd_failure_report_create();
		for (uint32_t i = 0; i < n; i++) {
			uint32_t j = dice(&seed) % (i + 1);

			order[i] = order[j];
			order[j] = i;
		}
		if (ending_known)
			hvd_failure_report_ending(h->report, T0 + ending * MS);
		for (uint32_t i = 0; i < n; i++) {
			uint32_t r = order[i], kind = dice(&seed) % 3;

			if (r == culprit)
				ended(h, r, "n1", status, at, told && status == EXIT(1) ? "ValueError: x" : NULL);
			else if (kind == 0)
				ended(h, r, "n2", EXIT(1), at + 1 + dice(&seed) % 300, peers[dice(&seed) % 4]);
			else if (kind == 1)
				ended(h, r, "n2", dice(&seed) % 2 ? SIGTERM : EXIT(143), ending + 1 + dice(&seed) % 50,
				      NULL);
			else
				ended(h, r, "n2", SIGKILL, ending + 600 + dice(&seed) % 50, NULL);
		}
		first_is(h, culprit, status);
	}
}

RUN_TESTS(.setup = setup, .teardown = teardown)
