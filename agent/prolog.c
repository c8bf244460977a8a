/* SPDX-License-Identifier: Apache-2.0 */
#include "prolog.h"

#include "lib/base/xalloc.h"
#include "lib/frameworks/emitted.h"
#include "lib/process/spawn.h"
#include "lib/protocol/step_plans.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The environment is that which the site's program would have without this suite. */
static int run_program(const char *program, const struct hvd_log *log)
{
	char *argv[] = {(char *)program, NULL};
	struct hvd_spawn spawn = {.path = program, .argv = argv};
	struct hvd_err err = {0};
	int status = 0;
	pid_t pid = hvd_spawn(&spawn, &err);

	if (pid < 0) {
		hvd_err_prefix(&err, "TaskProlog");
		hvd_log_err(log, &err);
		return 1;
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return hvd_status_exit(status);
}

/* Set a variable of the plan once more, unless the site may know it as well as the launch. */
static void print_fact(const char *name)
{
	const struct hvd_emitted *flags = hvd_emitted_flags(name);
	const char *value = getenv(name);

	if (value && !flags->iface && !flags->keeps && !strchr(value, '\n'))
		printf("export %s=%s\n", name, value);
}

int hvd_prolog_run(const char *program, const struct hvd_log *log)
{
	const char *text = getenv(HVD_PROLOG_NAMES_ENV);
	char *own = hvd_xstrdup(program), *names = hvd_xstrdup(text ? text : ""), *save = NULL;
	int status;

	unsetenv(HVD_PROLOG_ENV);
	unsetenv(HVD_PROLOG_NAMES_ENV);
	status = run_program(own, log);
	for (char *name = strtok_r(names, " ", &save); name; name = strtok_r(NULL, " ", &save))
		print_fact(name);
	printf("unset " HVD_PROLOG_ENV "\nunset " HVD_PROLOG_NAMES_ENV "\n");
	free(own);
	free(names);
	return fflush(stdout) == 0 ? status : 1;
}
