/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of hvd-agent and the Python that forks ranks; command lines of Python. */
#include "agent/preload_python.h"
#include "lib/process/interpreter.h"

#include "tests/unit/unit.h"

#include <sys/socket.h>

TEST(answers)
{
	static const char *const bad[] = {"",
					  "read",
					  "ready ",
					  "started",
					  "started 5",
					  "started 5 ",
					  "started 5 6 ",
					  "started 5  6",
					  "started -5 6",
					  "started 0 6",
					  "started 1 6",
					  "started 5 1",
					  "started 05 6",
					  "started 5x 6",
					  "started 99999999999 6",
					  "started 5 4294967302",
					  "refused",
					  "Ready"};
	struct hvd_preload_answer answer;
	struct hvd_err err = {0};

	assert_int_equal(hvd_preload_answer_parse("ready", &answer, &err), 0);
	assert_int_equal(answer.word, HVD_PRELOAD_READY);
	assert_int_equal(hvd_preload_answer_parse("started 4711 4710", &answer, &err), 0);
	assert_int_equal(answer.word, HVD_PRELOAD_STARTED);
	assert_int_equal(answer.pid, 4711);
	assert_int_equal(answer.group, 4710);
	assert_int_equal(hvd_preload_answer_parse("refused two\nlines", &answer, &err), 0);
	assert_int_equal(answer.word, HVD_PRELOAD_REFUSED);
	assert_string_equal(answer.why, "two\nlines");
	assert_int_equal(hvd_preload_answer_parse("failed no room", &answer, &err), 0);
	assert_int_equal(answer.word, HVD_PRELOAD_FAILED);
	assert_string_equal(answer.why, "no room");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (hvd_preload_answer_parse(bad[i], &answer, &err) == 0)
			fail_msg("\"%s\" was taken", bad[i]);
		assert_int_equal(err.code, HVD_E_PROTO);
	}
}

TEST(requests)
{
	static char a[] = "A=1", b[] = "B=";
	char *const envp[] = {a, b, NULL};
	static const char bytes[] = "0,5\0A=1\0B=", unbound[] = "\0A=1\0B=";
	char text[64];
	cpu_set_t cpus;
	int fds[HVD_PRELOAD_FDS], ends[2], open_before = open_fds();
	struct msghdr msg = {0};
	char control[CMSG_SPACE(sizeof(fds))], byte;
	struct iovec iov = {&byte, 1};
	int got[HVD_PRELOAD_FDS];

	CPU_ZERO(&cpus);
	CPU_SET(0, &cpus);
	CPU_SET(5, &cpus);
	fds[0] = hvd_preload_request(&cpus, envp, NULL);
	fds[1] = hvd_preload_request(NULL, envp, NULL);
	assert_int_equal(pread(fds[0], text, sizeof(text), 0), sizeof(bytes));
	assert_memory_equal(text, bytes, sizeof(bytes));
	assert_int_equal(pread(fds[1], text, sizeof(text), 0), sizeof(unbound));
	assert_memory_equal(text, unbound, sizeof(unbound));

	fds[2] = fds[3] = fds[4] = fds[0];
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	assert_int_equal(hvd_preload_send(ends[0], fds), 0);
	msg = (struct msghdr){
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	assert_int_equal(recvmsg(ends[1], &msg, 0), 1);
	assert_int_equal(CMSG_FIRSTHDR(&msg)->cmsg_len, CMSG_LEN(sizeof(got)));
	memcpy(got, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(got));
	assert_int_equal(pread(got[1], text, sizeof(text), 0), sizeof(unbound));
	for (int i = 0; i < HVD_PRELOAD_FDS; i++)
		close(got[i]);
	close(fds[0]);
	close(fds[1]);
	close(ends[1]);
	assert_int_equal(hvd_preload_send(ends[0], fds), -1); /* nobody reads, and no SIGPIPE */
	close(ends[0]);
	assert_int_equal(open_fds(), open_before);
}

/* The options of the interpreter in a command line, with blanks between them. */
static void has_options(const char *command, const char *options)
{
	struct hvd_strv argv = {0}, found = {0};
	char *text;

	assert_int_equal(hvd_shell_split(command, &argv), 0);
	hvd_python_options(argv.v, &found);
	text = hvd_strv_join(&found, " ");
	assert_string_equal(text, options);
	free(text);
	hvd_strv_free(&argv);
	hvd_strv_free(&found);
}

TEST(commands)
{
	static const char *const yes[] = {"python", "python3", "/usr/bin/python3.11", "./python"},
				 *const no[] = {"pythonx",  "bash", "python/x",   "train.py",
						"ipython3", "",     "python3-dbg"};

	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
		assert_true(hvd_is_python(yes[i]));
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
		assert_false(hvd_is_python(no[i]));
	has_options("python", "");
	has_options("python train.py -u", "");
	has_options("python -u train.py -O", "-u");
	has_options("python -m mod -u", "");
	has_options("python -uOm mod -u", "-uO");
	has_options("python -um -W", "-u");
	has_options("python -c code", "");
	has_options("python -uc code", "-u");
	has_options("python -W ignore -X dev -Wx -OX utf8 a.py", "-W ignore -X dev -Wx -OX utf8");
	has_options("python -W", "-W");
	has_options("python -u - -O", "-u");
	has_options("python -u -- -O", "-u");
	has_options("python --check-hash-based-pycs never -B a", "--check-hash-based-pycs never -B");
	assert_true(hvd_python_modules("torch"));
	assert_true(hvd_python_modules("torch,torch.distributed,_x1,\xc3\xa4"));
	assert_false(hvd_python_modules(""));
	assert_false(hvd_python_modules("a,"));
	assert_false(hvd_python_modules(",a"));
	assert_false(hvd_python_modules("a..b"));
	assert_false(hvd_python_modules("1a"));
	assert_false(hvd_python_modules("a;b"));
	assert_false(hvd_python_modules("a b"));
}

RUN_TESTS()
