/* SPDX-License-Identifier: Apache-2.0 */
/* How often libslurm is initialised, and what is said when it dies of that: libslurm's two functions are played. */
#include "slurm/slurm.h"
#include "unit.h"

#include <sys/resource.h>

#define EXPORTED __attribute__((visibility("default")))

void slurm_init(const char *conf);
void slurm_fini(void);

static struct {
	int inits, finis; /* in this process */
	int signal;       /* to die of */
	const char *words;
	int code; /* to end with, when not -1 */
} played = {.code = -1};

/* In place of libslurm's. */
EXPORTED void slurm_init(const char *conf)
{
	static const struct rlimit no_core = {0, 0};

	(void)conf;
	played.inits++;
	if (played.words)
		fputs(played.words, stderr);
	if (played.signal) {
		signal(played.signal, SIG_DFL);
		setrlimit(RLIMIT_CORE, &no_core);
		raise(played.signal);
	}
	if (played.code >= 0)
		_exit(played.code);
}

EXPORTED void slurm_fini(void)
{
	played.finis++;
}

static void open_says(const char *text)
{
	struct hvd_err err = {0};

	assert_fails_with(hvd_slurm_open(&err), err, HVD_E_SYS, "Slurm's configuration cannot be read: ");
	assert_in(err.msg, text);
	assert_in(err.hint, "scontrol show config");
	assert_int_equal(played.inits, 0); /* it was a child that died */
}

TEST(what_ended_libslurm_is_named)
{
	if (!hvd_slurm_built_in())
		skip_because("built without Slurm");
	played.signal = SIGSEGV;
	open_says("killed by signal 11 (SIGSEGV)");
	played.words = "fatal: all is lost\n";
	open_says("fatal: all is lost; a process in libslurm ended: killed by signal 11 (SIGSEGV)");
	played.signal = 0;
	played.code = 1;
	open_says("fatal: all is lost");
	played.words = NULL;
	open_says("a process in libslurm ended: exit code 1");
	played.code = -1;
}

/* A second slurm_init() after slurm_fini() is the end of a process with Slurm 24.11. */
TEST(libslurm_is_initialised_once)
{
	if (!hvd_slurm_built_in())
		skip_because("built without Slurm");
	for (int i = 0; i < 3; i++)
		assert_int_equal(hvd_slurm_open(NULL), 0);
	assert_int_equal(played.inits, 1);
	assert_int_equal(played.finis, 0);
}

RUN_TESTS()
