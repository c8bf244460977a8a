/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks.h"

#include "lib/base/cleanup.h"
#include "lib/base/file.h"
#include "lib/base/strv.h"
#include "lib/base/xalloc.h"
#include "lib/process/capture.h"
#include "lib/process/procfs.h"
#include "stack_find.h"
#include "stack_parse.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_OUTPUT (4 << 20)
/* gdb reads the symbols of all libraries first: on a busy host it takes longer than the others. */
#define TOOL_SECONDS 4.0
#define GDB_SECONDS  12.0
#define WHY          2048

/* The kernel's information about a process. */
struct seen {
	char state;
	char wchan[64];
	long syscall;
	bool frozen;
};

static char *read_proc(pid_t pid, const char *file, size_t *len)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	return hvd_read_file(path, 65536, "the file", len, NULL);
}

static char state_of(pid_t pid)
{
	struct hvd_process process;

	return hvd_process_read(pid, &process) == 0 ? process.state : '\0';
}

/* The process's number in its own pid namespace, as in a container; 0: it is not known. */
static pid_t own_number(pid_t pid)
{
	size_t len;
	hvd_cleanup_free char *status = read_proc(pid, "status", &len);
	const char *line = status ? strstr(status, "\nNSpid:") : NULL, *last;

	if (!line)
		return 0;
	last = line + 1 + strcspn(line + 1, "\n");
	while (last[-1] >= '0' && last[-1] <= '9')
		last--;
	return (pid_t)strtol(last, NULL, 10);
}

static bool look(pid_t pid, struct seen *seen)
{
	size_t len;
	hvd_cleanup_free char *wchan = read_proc(pid, "wchan", &len), *call = read_proc(pid, "syscall", &len);
	char *end;

	*seen = (struct seen){.state = state_of(pid), .syscall = -1};
	if (wchan && strcmp(wchan, "0") != 0)
		snprintf(seen->wchan, sizeof(seen->wchan), "%s", wchan);
	if (call) {
		long n = strtol(call, &end, 10);

		if (end != call)
			seen->syscall = n;
	}
	seen->frozen = strcmp(seen->wchan, "do_freezer_trap") == 0 || strcmp(seen->wchan, "__refrigerator") == 0;
	return seen->state != '\0';
}

static const char *state_text(const struct seen *seen)
{
	if (seen->frozen)
		return "frozen";
	switch (seen->state) {
	case 'R':
		return "running";
	case 'S':
		return "sleeping";
	case 'D':
		return "in an uninterruptible wait in the kernel";
	case 'T':
		return "stopped by a signal";
	case 't':
		return "stopped by a debugger";
	case 'Z':
		return "a zombie, not waited for by its parent";
	default:
		return "in another state";
	}
}

/* ---- tools ---- */

static char *program_in(const char *folder, size_t len, const char *name)
{
	char *path = hvd_xasprintf("%.*s/%s", (int)len, folder, name);

	if (len && *path == '/' && access(path, X_OK) == 0)
		return path;
	free(path);
	return NULL;
}

static char *program_in_list(const char *list, const char *name)
{
	char *found = NULL;

	for (const char *p = list; p && *p && !found; p += *p == ':') {
		size_t len = strcspn(p, ":");

		found = program_in(p, len, name);
		p += len;
	}
	return found;
}

/* A tool of the process's own environment, as the one that is installed beside its frameworks. */
static char *find_tool(pid_t pid, const char *name)
{
	hvd_cleanup_free char *its_path = hvd_stack_find_env(pid, "PATH");
	size_t len;
	hvd_cleanup_free char *command = read_proc(pid, "cmdline", &len);
	const char *slash = command ? strrchr(command, '/') : NULL;
	char *found = program_in_list(its_path, name);

	if (!found && slash)
		found = program_in(command, (size_t)(slash - command), name);
	return found ? found : program_in_list(getenv("PATH"), name);
}

struct tool {
	const char *name;
	const char *args[10]; /* "" stands for the pid */
	double seconds;       /* that it may take */
	bool stops;           /* it stops the process while it looks */
	json_t *(*parse)(const char *text, size_t len, pid_t pid);
};

static const struct tool tools[] = {
	{"py-spy", {"dump", "--nonblocking", "--json", "--pid", ""}, TOOL_SECONDS, false, hvd_stack_parse_pyspy},
	{"eu-stack", {"-p", ""}, TOOL_SECONDS, true, hvd_stack_parse_native},
	{"gdb",
	 {"-batch", "-nx", "-iex", "set auto-load off", "-p", "", "-ex", "thread apply all bt 64"},
	 GDB_SECONDS,
	 true,
	 hvd_stack_parse_native},
};

/* A tool that was killed may leave a process stopped that has not noticed yet that it was to be looked at. */
static void let_go_on(pid_t pid)
{
	if (state_of(pid) == 'T')
		kill(pid, SIGCONT);
}

static json_t *run_tool(const struct tool *tool, const char *path, pid_t pid, hvd_time deadline, struct hvd_err *err)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv argv = {0}, env = {0};
	struct hvd_spawn sp = {.path = path};
	size_t len = 0;
	int status = 0;
	hvd_cleanup_free char *text = NULL;
	json_t *stacks;

	hvd_strv_add(&argv, path);
	for (size_t i = 0; tool->args[i]; i++)
		if (*tool->args[i])
			hvd_strv_add(&argv, tool->args[i]);
		else
			hvd_strv_addf(&argv, "%d", (int)pid);
	/* Symbols are not to be asked for over the network. */
	hvd_strv_add_all(&env, environ);
	hvd_env_unset(&env, "DEBUGINFOD_URLS");
	sp.argv = argv.v;
	sp.envp = env.v;
	text = hvd_capture(&sp, MAX_OUTPUT, hvd_earlier(deadline, hvd_deadline_in(tool->seconds)), &len, &status, err);
	if (!text) {
		if (tool->stops)
			let_go_on(pid);
		return NULL;
	}
	stacks = tool->parse(text, len, pid);
	if (!stacks)
		hvd_err_set(err, HVD_E_FAILED, "%s shows no stack of process %d", tool->name, (int)pid);
	return stacks;
}

static const char *ptrace_refused(void)
{
	size_t len;
	hvd_cleanup_free char *scope = hvd_read_file("/proc/sys/kernel/yama/ptrace_scope", 16, "the file", &len, NULL);

	return scope && *scope != '0' ? "; the host's kernel.yama.ptrace_scope does not let processes look at others"
				      : "";
}

static json_t *by_tools(pid_t pid, const struct seen *seen, bool may_stop, hvd_time deadline, const char **how,
			char why[WHY])
{
	bool python = true, any = false;

	*how = "kernel";
	snprintf(why, WHY, "none of py-spy, eu-stack and gdb is installed");
	for (size_t i = 0; i < sizeof(tools) / sizeof(tools[0]) && seen->state != 'Z'; i++) {
		hvd_cleanup_free char *path = !may_stop && tools[i].stops ? NULL : find_tool(pid, tools[i].name);
		struct hvd_err err = {0};
		json_t *stacks;

		if (!path || hvd_left(deadline) <= 0)
			continue;
		any = true;
		stacks = run_tool(&tools[i], path, pid, deadline, &err);
		if (stacks) {
			*how = tools[i].name;
			snprintf(why, WHY, "%s", python && i ? "py-spy is not installed there" : "");
			return stacks;
		}
		python = i > 0 && python;
		snprintf(why, WHY, "%s%s%s", err.msg, ptrace_refused(),
			 python ? "; py-spy, which is quicker and shows lines of Python, is not installed there" : "");
	}
	if (!any && !may_stop)
		snprintf(why, WHY, "only py-spy can look at a process that is %s, and it is not installed there",
			 state_text(seen));
	return NULL;
}

json_t *hvd_stack_take(pid_t pid, bool may_stop, hvd_time deadline)
{
	struct seen seen;
	const char *how;
	char why[WHY];
	json_t *stacks, *all;
	pid_t own;

	if (!look(pid, &seen))
		return NULL;
	may_stop = may_stop && !seen.frozen && !strchr("TtDZ", seen.state);
	stacks = by_tools(pid, &seen, may_stop, deadline, &how, why);
	all = json_pack("{s:i, s:s, s:s, s:o, s:o, s:I, s:b}", "pid", (int)pid, "state", state_text(&seen), "how", how,
			"why", hvd_stack_text(why, strlen(why)), "wchan",
			hvd_stack_text(seen.wchan, strlen(seen.wchan)), "syscall", (json_int_t)seen.syscall, "stopped",
			seen.frozen || seen.state == 'T' || seen.state == 't');
	own = own_number(pid);
	if (own > 0 && own != pid)
		json_object_set_new(all, "own_pid", json_integer(own));
	if (stacks)
		json_object_update(all, stacks);
	json_decref(stacks);
	return all;
}
