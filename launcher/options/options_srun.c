/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options_srun.c - the options of srun, of all releases from 22.05 to 26.05, and
 * those of the plugin pyxis. All of them but --async and --multi-prog are passed on to
 * srun; hvdrun also reads the values that decide what it does itself.
 */
#include "lib/base/values.h"
#include "options_rows.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* "4", "2-4", "2k"; newer releases also know "1,2,8" and "2-8:2". */
static bool node_number(const char **s, long long *out)
{
	char *end;

	if (**s < '0' || **s > '9')
		return false;
	*out = strtoll(*s, &end, 10);
	if (*out > INT_MAX)
		return false;
	if (*end == 'k' || *end == 'K') {
		*out *= 1024;
		end++;
	} else if (*end == 'm' || *end == 'M') {
		*out *= 1024LL * 1024;
		end++;
	}
	*s = end;
	return *out <= INT_MAX;
}

static int read_nodes(void *result, const char *from, const char *value, struct hvd_err *err)
{
	struct hvd_options *res = result;
	long long lo = INT_MAX, hi = 0;
	const char *s = value;

	while (s) {
		long long a, b, step;

		if (!node_number(&s, &a))
			goto bad;
		b = a;
		if (*s == '-' && (s++, !node_number(&s, &b)))
			goto bad;
		if (*s == ':' && (s++, !node_number(&s, &step)))
			goto bad;
		/* "4-0" has no upper end. */
		if (b && b < a)
			goto bad;
		lo = a < lo ? a : lo;
		hi = !b || b > hi ? b : hi;
		if (!*s)
			break;
		if (*s++ != ',')
			goto bad;
	}
	res->nodes_min = (int)lo;
	res->nodes_max = (int)hi;
	return 0;
bad:
	hvd_err_set(err, HVD_E_USAGE, "%s: \"%s\" is not a number of nodes", from, value);
	return hvd_err_hint(err, "write -N 4, or -N 2-4 for at least two and at most four");
}

static int read_kill(void *result, const char *from, const char *value, struct hvd_err *err)
{
	struct hvd_options *res = result;
	long long n = 1;

	if (value && *value && !hvd_value_whole(value, &n)) {
		hvd_err_set(err, HVD_E_USAGE, "%s: \"%s\" is neither 0 nor 1", from, value);
		return hvd_err_hint(err, "write -K0 or --kill-on-bad-exit=0 to let the other ranks go on");
	}
	res->kill_on_bad_exit = n != 0;
	return 0;
}

#define OWN(n, l, ar, g, hint, text)                                                                                   \
	.name = n, .letter = l, .arity = HVD_ARG_##ar, .family = HVD_FAMILY_SRUN, .group = HVD_G_##g, .arg = hint,     \
	.help = text
#define ROW(n, l, ar, g, hint, text) OWN(n, l, ar, S_##g, hint, text), .pass = true
/* Rows of options that are only passed on. NEW: `release` is the first that has the option. */
#define ON(n, l, ar, g, hint, text)                                                                                    \
	{                                                                                                              \
		ROW(n, l, ar, g, hint, text)                                                                           \
	}
#define NEW(n, ar, g, hint, text, release)                                                                             \
	{                                                                                                              \
		ROW(n, 0, ar, g, hint, text), .since = release                                                         \
	}
#define PYXIS(n, ar, hint, text)                                                                                       \
	{                                                                                                              \
		ROW(n, 0, ar, PLUGIN, hint, text), .plugin = true                                                      \
	}
/* Rows of options whose value hvdrun reads as well. TEXT ends with the variables, NUM with the least value; other members of
 * the row may follow. */
#define TEXT(n, l, ar, g, hint, text, field, ...)                                                                      \
	{                                                                                                              \
		ROW(n, l, ar, g, hint, text), .type = HVD_OPT_STRING, .at = HVD_AT(field), .env = __VA_ARGS__          \
	}
#define NUM(n, l, g, hint, text, field, variables, ...)                                                                \
	{                                                                                                              \
		ROW(n, l, REQUIRED, g, hint, text), .type = HVD_OPT_INT, .at = HVD_AT(field), .env = variables,        \
						    .min = __VA_ARGS__                                                 \
	}
#define FLAG(n, l, ar, g, hint, text, field, variables)                                                                \
	{                                                                                                              \
		ROW(n, l, ar, g, hint, text), .type = HVD_OPT_FLAG, .at = HVD_AT(field), .env = variables              \
	}
/* For options of which each role of a launch may have its own. */
#define OF_ROLE .whose = HVD_OF_ROLE

static const struct hvd_opt rows[] = {
	/* Tasks. */
	{ROW("ntasks", 'n', REQUIRED, TASKS, "NUMBER", "Start this many tasks (ranks)"),
	 .more = "The same number as -np; but outside of a job -n makes a Slurm job, and -np runs the ranks here",
	 .type = HVD_OPT_INT, .at = HVD_AT(ntasks), .env = "SLURM_NTASKS,SLURM_NPROCS", .min = 1, OF_ROLE,
	 .collide = "horovodrun's -np may be shortened to -n: the same thing"},
	NUM("ntasks-per-node", 0, TASKS, "NUMBER", "Tasks on each node", ntasks_per_node, "SLURM_NTASKS_PER_NODE", 0,
	    OF_ROLE),
	NUM("tasks-per-node", 0, TASKS, "NUMBER", "The same as --ntasks-per-node", ntasks_per_node, NULL, 0, OF_ROLE),
	NUM("ntasks-per-gpu", 0, TASKS, "NUMBER", "Tasks for each GPU", ntasks_per_gpu, "SLURM_NTASKS_PER_GPU", 0),
	NUM("ntasks-per-tres", 0, TASKS, "NUMBER", "The same as --ntasks-per-gpu", ntasks_per_gpu,
	    "SLURM_NTASKS_PER_TRES", 0),
	NUM("ntasks-per-socket", 0, TASKS, "NUMBER", "Tasks on each socket", ntasks_per_socket, NULL, 0),
	NUM("ntasks-per-core", 0, TASKS, "NUMBER", "Tasks on each core", ntasks_per_core, "SLURM_NTASKS_PER_CORE", 0),
	NUM("cpus-per-task", 'c', TASKS, "NUMBER", "CPUs for each task", cpus_per_task,
	    "SRUN_CPUS_PER_TASK,SLURM_CPUS_PER_TASK", 0, OF_ROLE),
	TEXT("distribution", 'm', REQUIRED, TASKS, "METHOD",
	     "Spread tasks over nodes, sockets and cores by this method", distribution, "SLURM_DISTRIBUTION"),
	FLAG("overcommit", 'O', NONE, TASKS, NULL, "Allow more than one task per CPU", overcommit, "SLURM_OVERCOMMIT"),
	{OWN("multi-prog", 0, NONE, S_TASKS, NULL, "The command is a file that names the command of each rank"),
	 .more = "See MULTIPLE PROGRAMS", .type = HVD_OPT_FLAG, .at = HVD_AT(multi_prog), .env = "SLURM_SRUN_MULTI",
	 OF_ROLE},
	TEXT("het-group", 0, REQUIRED, TASKS, "LIST", "Components of a heterogeneous job to start in", het_group, NULL,
	     OF_ROLE),
	TEXT("pack-group", 0, REQUIRED, TASKS, "LIST", "The same as --het-group", het_group, NULL, OF_ROLE),

	/* Nodes. */
	{ROW("nodes", 'N', REQUIRED, NODES, "MIN[-MAX]", "Use this many nodes"), .type = HVD_OPT_INT,
	 .at = HVD_AT(nodes_min), .read = read_nodes, .env = "SLURM_JOB_NUM_NODES,SLURM_NNODES", OF_ROLE},
	TEXT("nodelist", 'w', REQUIRED, NODES, "HOSTS", "Run on these nodes", nodelist, NULL),
	TEXT("nodefile", 'F', REQUIRED, NODES, "FILE", "Run on the nodes that the file names", nodefile, NULL),
	TEXT("exclude", 'x', REQUIRED, NODES, "HOSTS", "Do not run on these nodes", exclude, NULL),
	TEXT("relative", 'r', REQUIRED, NODES, "NUMBER", "Start at this node of the allocation", relative, NULL),
	ON("use-min-nodes", 0, NONE, NODES, NULL, "Prefer the smaller number in a range of node counts"),
	ON("contiguous", 0, NONE, NODES, NULL, "Ask for neighbouring nodes"),
	ON("constraint", 'C', REQUIRED, NODES, "FEATURES", "Nodes must have these features"),
	ON("cluster-constraint", 0, REQUIRED, NODES, "FEATURES", "Clusters must have these features"),
	ON("prefer", 0, REQUIRED, NODES, "FEATURES", "Nodes should have these features"),
	ON("mincpus", 0, REQUIRED, NODES, "NUMBER", "Nodes must have this many CPUs"),
	ON("tmp", 0, REQUIRED, NODES, "SIZE", "Nodes must have this much temporary disk"),
	ON("switches", 0, REQUIRED, NODES, "COUNT[@TIME]", "At most this many leaf switches"),
	ON("spread-job", 0, NONE, NODES, NULL, "Spread the job over as many nodes as possible"),
	ON("reboot", 0, NONE, NODES, NULL, "Reboot the nodes first"),
	ON("delay-boot", 0, REQUIRED, NODES, "MINUTES", "Wait this long before rebooting nodes for their features"),
	FLAG("no-allocate", 'Z', NONE, NODES, NULL, "Do not create an allocation (administrators)", no_allocate, NULL),
	NEW("segment", REQUIRED, NODES, "SIZE", "Size of the segments that nodes are allocated in", 2405),
	NEW("spread-segments", NONE, NODES, NULL, "Place segments in separate base blocks", 2511),
	NEW("consolidate-segments", NONE, NODES, NULL, "Place segments in as few base blocks as possible", 2511),

	/* Resources. */
	TEXT("gpus", 'G', REQUIRED, RESOURCES, "[TYPE:]N", "GPUs for the whole job", gpus, "SLURM_GPUS"),
	TEXT("gpus-per-node", 0, REQUIRED, RESOURCES, "[TYPE:]N", "GPUs on each node", gpus_per_node,
	     "SLURM_GPUS_PER_NODE"),
	TEXT("gpus-per-socket", 0, REQUIRED, RESOURCES, "[TYPE:]N", "GPUs on each socket", gpus_per_socket,
	     "SLURM_GPUS_PER_SOCKET"),
	TEXT("gpus-per-task", 0, REQUIRED, RESOURCES, "[TYPE:]N", "GPUs for each task", gpus_per_task,
	     "SLURM_GPUS_PER_TASK", OF_ROLE),
	{ROW("tres-per-task", 0, REQUIRED, RESOURCES, "LIST", "Resources for each task"), .type = HVD_OPT_STRING,
	 .at = HVD_AT(tres_per_task), .env = "SLURM_TRES_PER_TASK", .since = 2302},
	TEXT("gres", 0, REQUIRED, RESOURCES, "LIST", "Generic resources on each node", gres, "SLURM_GRES"),
	ON("gres-flags", 0, REQUIRED, RESOURCES, "FLAGS", "Allocate generic resources in this way"),
	ON("cpus-per-gpu", 0, REQUIRED, RESOURCES, "NUMBER", "CPUs for each GPU"),
	ON("mem-per-gpu", 0, REQUIRED, RESOURCES, "SIZE", "Memory for each GPU"),
	ON("mem-per-cpu", 0, REQUIRED, RESOURCES, "SIZE", "Memory for each CPU"),
	TEXT("mem", 0, REQUIRED, RESOURCES, "SIZE", "Memory on each node", mem, "SLURM_MEM_PER_NODE"),
	ON("licenses", 'L', REQUIRED, RESOURCES, "LIST", "Licenses that the job needs"),
	FLAG("exclusive", 0, OPTIONAL, RESOURCES, "KIND", "Do not share nodes or, within a job, CPUs", exclusive,
	     "SLURM_EXCLUSIVE"),
	FLAG("exact", 0, NONE, RESOURCES, NULL, "Take only the requested resources of each node", exact, "SLURM_EXACT"),
	FLAG("overlap", 0, OPTIONAL, RESOURCES, "KIND", "Let other steps use the same resources", overlap,
	     "SLURM_OVERLAP"),
	ON("oversubscribe", 's', NONE, RESOURCES, NULL, "Share resources with other jobs"),
	ON("whole", 0, NONE, RESOURCES, NULL, "Give the step all resources of its nodes"),
	ON("core-spec", 'S', REQUIRED, RESOURCES, "NUMBER", "Cores of each node kept for the system"),
	ON("thread-spec", 0, REQUIRED, RESOURCES, "NUMBER", "Threads of each node kept for the system"),
	ON("network", 0, REQUIRED, RESOURCES, "TYPE", "Ask the interconnect plugin for this"),
	ON("resv-ports", 0, OPTIONAL, RESOURCES, "NUMBER", "Reserve communication ports for the step"),
	ON("bb", 0, REQUIRED, RESOURCES, "SPEC", "Burst buffer"),
	ON("bbf", 0, REQUIRED, RESOURCES, "FILE", "File that describes a burst buffer"),
	NEW("resources", REQUIRED, RESOURCES, "SPEC", "Resources of other kinds", 2511),
	NEW("mem-update", REQUIRED, RESOURCES, "SPEC", "Change the memory of the job while it runs", 2605),

	/* Binding. */
	TEXT("cpu-bind", 0, REQUIRED, BINDING, "TYPE", "Bind tasks to CPUs", cpu_bind, "SLURM_CPU_BIND", OF_ROLE),
	TEXT("cpu_bind", 0, REQUIRED, BINDING, "TYPE", "The same as --cpu-bind", cpu_bind, NULL, OF_ROLE),
	ON("mem-bind", 0, REQUIRED, BINDING, "TYPE", "Bind tasks to memory"),
	TEXT("gpu-bind", 0, REQUIRED, BINDING, "TYPE", "Bind tasks to GPUs", gpu_bind, "SLURM_GPU_BIND"),
	NEW("tres-bind", REQUIRED, BINDING, "SPEC", "Bind tasks to generic resources", 2311),
	ON("accel-bind", 0, REQUIRED, BINDING, "FLAGS", "Bind tasks to the nearest devices"),
	ON("hint", 0, REQUIRED, BINDING, "TYPE", "Bind as suits this kind of application"),
	ON("cpu-freq", 0, REQUIRED, BINDING, "RANGE", "Frequency and governor of CPUs"),
	ON("gpu-freq", 0, REQUIRED, BINDING, "SPEC", "Frequency and voltage of GPUs"),
	ON("extra-node-info", 'B', REQUIRED, BINDING, "S[:C[:T]]", "Sockets, cores and threads that nodes must have"),
	ON("sockets-per-node", 0, REQUIRED, BINDING, "NUMBER", "Sockets that nodes must have"),
	ON("cores-per-socket", 0, REQUIRED, BINDING, "NUMBER", "Cores that sockets must have"),
	ON("threads-per-core", 0, REQUIRED, BINDING, "NUMBER", "Threads that cores must have"),

	/* Input and output. */
	{ROW("input", 'i', REQUIRED, IO, "MODE", "Take standard input from here"), .type = HVD_OPT_STRING,
	 .at = HVD_AT(input), .env = "SRUN_INPUT,SLURM_STDINMODE",
	 .collide = "-i is horovodrun's --ssh-identity-file when called as horovodrun"},
	TEXT("output", 'o', REQUIRED, IO, "MODE", "Write standard output here", output, "SRUN_OUTPUT,SLURM_STDOUTMODE"),
	TEXT("error", 'e', REQUIRED, IO, "MODE", "Write standard error here", error, "SRUN_ERROR,SLURM_STDERRMODE"),
	FLAG("label", 'l', NONE, IO, NULL, "Put the task's number in front of each line", label, "SLURM_LABELIO"),
	FLAG("unbuffered", 'u', NONE, IO, NULL, "Do not buffer output by lines", unbuffered, "SLURM_UNBUFFEREDIO"),
	FLAG("pty", 0, OPTIONAL, IO, "FD", "Run task 0 in a pseudo terminal", pty, NULL),
	ON("open-mode", 0, REQUIRED, IO, "append|truncate", "Append to output files, or truncate them"),
	ON("x11", 0, OPTIONAL, IO, "WHERE", "Forward X11"),

	/* The step. */
	{ROW("mpi", 0, REQUIRED, STEP, "TYPE", "Use this kind of MPI"), .type = HVD_OPT_STRING, .at = HVD_AT(mpi_type),
	 .env = "SLURM_MPI_TYPE", .apart = "none|list|pmi2|pmix|pmix_v*|openmpi|cray_shasta",
	 .collide = "--mpi without a value is horovodrun's MPI controller. So the value needs an equals sign; as a "
		    "separate word only the usual types are recognized, and none when called as horovodrun"},
	{ROW("kill-on-bad-exit", 'K', OPTIONAL, STEP, "0|1",
	     "End all tasks when one fails. That is the default here; 0 is the same as --keep-going"),
	 .type = HVD_OPT_TRI, .at = HVD_AT(kill_on_bad_exit), .read = read_kill, .env = "SLURM_KILL_BAD_EXIT", OF_ROLE},
	NUM("wait", 'W', STEP, "SECONDS", "End the job this long after the first task has ended", wait, "SLURM_WAIT",
	    0),
	TEXT("export", 0, REQUIRED, STEP, "LIST|ALL|NONE", "Variables that tasks get", export_env,
	     "SRUN_EXPORT_ENV,SLURM_EXPORT_ENV"),
	TEXT("chdir", 'D', REQUIRED, STEP, "DIRECTORY", "Run tasks in this directory", chdir,
	     "SLURM_WORKING_DIR,SLURM_REMOTE_CWD"),
	TEXT("bcast", 0, OPTIONAL, STEP, "PATH", "Copy the program to the nodes first", bcast, "SLURM_BCAST"),
	ON("bcast-exclude", 0, REQUIRED, STEP, "PATHS", "Libraries that --bcast leaves out"),
	ON("send-libs", 0, OPTIONAL, STEP, "yes|no", "Copy the program's libraries as well"),
	ON("compress", 0, OPTIONAL, STEP, "LIBRARY", "Compress what --bcast copies"),
	TEXT("jobid", 0, REQUIRED, STEP, "ID", "Run in this allocation", jobid, "SLURM_JOB_ID,SLURM_JOBID"),
	FLAG("preserve-env", 'E', NONE, STEP, NULL, "Prefer the environment's numbers of nodes and tasks", preserve_env,
	     NULL),
	ON("no-kill", 'k', OPTIONAL, STEP, "off", "Do not end the job when a node fails"),
	ON("signal", 0, REQUIRED, STEP, "SIGNAL[@TIME]", "Send a signal before the time limit"),
	FLAG("quit-on-interrupt", 0, NONE, STEP, NULL, "One Ctrl-C ends the job", quit_on_interrupt, NULL),
	FLAG("disable-status", 'X', NONE, STEP, NULL, "Ctrl-C does not show the state of tasks", disable_status, NULL),
	ON("propagate", 0, OPTIONAL, STEP, "LIMITS", "Resource limits that tasks inherit"),
	ON("prolog", 0, REQUIRED, STEP, "PROGRAM", "Run before the step, where srun runs"),
	ON("epilog", 0, REQUIRED, STEP, "PROGRAM", "Run after the step, where srun runs"),
	ON("task-prolog", 0, REQUIRED, STEP, "PROGRAM", "Run before each task"),
	ON("task-epilog", 0, REQUIRED, STEP, "PROGRAM", "Run after each task"),
	ON("profile", 0, REQUIRED, STEP, "KINDS", "Record a profile"),
	ON("acctg-freq", 0, REQUIRED, STEP, "LIST", "Sample for accounting this often"),
	ON("threads", 'T', REQUIRED, STEP, "NUMBER", "Threads of srun for starting tasks"),
	ON("msg-timeout", 0, REQUIRED, STEP, "SECONDS", "Have srun wait this long for messages"),
	ON("slurmd-debug", 0, REQUIRED, STEP, "LEVEL",
	   "Have slurmd write messages of this level to the tasks' standard error"),
	{ROW("quiet", 'Q', NONE, STEP, NULL, "Print fewer messages"), .type = HVD_OPT_COUNT, .at = HVD_AT(quiet)},
	{OWN("verbose", 'v', NONE, OUTPUT, NULL, "Print more messages, also of srun"), .pass = true,
	 .more = "--hvd-verbose is for this program only", .type = HVD_OPT_COUNT, .at = HVD_AT(verbose),
	 .collide = "-v is horovodrun's --version, and --verbose is not passed on to srun, when called as horovodrun"},
	FLAG("test-only", 0, NONE, STEP, NULL, "Only show when the job would start", test_only, NULL),
	ON("debugger-test", 0, NONE, STEP, NULL, "For testing debuggers"),
	ON("interactive", 0, NONE, STEP, NULL, "The step is salloc's interactive one"),
	TEXT("container", 0, REQUIRED, STEP, "PATH", "OCI bundle to run in", container, "SRUN_CONTAINER"),
	NEW("container-id", REQUIRED, STEP, "ID", "Name of the OCI container", 2302),
	NEW("container-type", REQUIRED, STEP, "TYPE", "Kind of container", 2605),
	NEW("runtime", REQUIRED, STEP, "NAME", "Plugin that runs containers", 2605),
	NEW("external-launcher", OPTIONAL, STEP, "KIND", "The step is started by an MPI launcher", 2311),
	NEW("treewidth", REQUIRED, STEP, "WIDTH", "Width of the message tree", 2311),
	NEW("oom-kill-step", OPTIONAL, STEP, "0|1", "End the step when a task runs out of memory", 2411),
	NEW("wait-for-children", NONE, STEP, NULL, "A task ends with the last of its processes", 2505),
	NEW("ignore-signals", REQUIRED, STEP, "SIGNALS", "Signals that srun does not forward", 2605),
	{OWN("async", 0, NONE, S_STEP, NULL,
	     "Do not wait for the step. Refused here: ranks need the rendezvous until they end"),
	 .type = HVD_OPT_FLAG, .at = HVD_AT(async), .since = 2605},
	NEW("parsable", NONE, STEP, NULL, "With --async, print only the step's number", 2605),
	{ROW("autocomplete", 0, REQUIRED, STEP, "NAME", "For srun's shell completion"), .since = 2302, .hidden = true},

	/* The job, if srun creates one. */
	TEXT("account", 'A', REQUIRED, JOB, "NAME", "Account to charge", account, "SLURM_ACCOUNT"),
	{ROW("partition", 'p', REQUIRED, JOB, "NAMES", "Partition"), .type = HVD_OPT_STRING, .at = HVD_AT(partition),
	 .env = "SLURM_PARTITION", .collide = "-p is horovodrun's --ssh-port when called as horovodrun"},
	ON("qos", 'q', REQUIRED, JOB, "NAME", "Quality of service"),
	TEXT("reservation", 0, REQUIRED, JOB, "NAMES", "Reservation", reservation, "SLURM_RESERVATION"),
	TEXT("clusters", 'M', REQUIRED, JOB, "NAMES", "Clusters to send the job to", clusters, "SLURM_CLUSTERS"),
	ON("cluster", 0, REQUIRED, JOB, "NAMES", "Clusters to send the job to"),
	TEXT("time", 't', REQUIRED, JOB, "TIME", "Time limit", time, "SLURM_TIMELIMIT"),
	ON("time-min", 0, REQUIRED, JOB, "TIME", "Smallest acceptable time limit"),
	ON("job-name", 'J', REQUIRED, JOB, "NAME", "Name of the job"),
	TEXT("immediate", 'I', OPTIONAL, JOB, "SECONDS", "Give up when there are no resources within this time",
	     immediate, NULL),
	ON("begin", 'b', REQUIRED, JOB, "TIME", "Not before this time"),
	ON("deadline", 0, REQUIRED, JOB, "TIME", "Give up when the job cannot end by this time"),
	ON("dependency", 'd', REQUIRED, JOB, "LIST", "Jobs to wait for"),
	{ROW("hold", 'H', NONE, JOB, NULL, "Submit the job held"), .type = HVD_OPT_FLAG, .at = HVD_AT(hold),
	 .collide = "-H is horovodrun's --hosts when called as horovodrun"},
	ON("priority", 0, REQUIRED, JOB, "VALUE", "Priority of the job"),
	ON("nice", 0, OPTIONAL, JOB, "VALUE", "Lower the priority"),
	ON("comment", 0, REQUIRED, JOB, "TEXT", "Comment"),
	NEW("extra", REQUIRED, JOB, "TEXT", "Text that plugins may read", 2302),
	ON("wckey", 0, REQUIRED, JOB, "KEY", "Key for accounting"),
	ON("mcs-label", 0, REQUIRED, JOB, "LABEL", "Label of multi-category security"),
	ON("context", 0, REQUIRED, JOB, "CONTEXT", "SELinux context"),
	ON("mail-type", 0, REQUIRED, JOB, "EVENTS", "Send mail about these events"),
	ON("mail-user", 0, REQUIRED, JOB, "USER", "Send the mail to this user"),
	ON("power", 0, REQUIRED, JOB, "FLAGS", "Power management (old releases)"),
	ON("uid", 0, REQUIRED, JOB, "USER", "Submit as this user (old releases, root)"),
	ON("gid", 0, REQUIRED, JOB, "GROUP", "Submit with this group (old releases, root)"),
	NEW("stepmgr", NONE, JOB, NULL, "Let the first node manage the job's steps", 2405),

	/* pyxis: listed so that hvdrun knows which options take a value, with or without "=". */
	PYXIS("container-image", REQUIRED, "IMAGE", "Container image to run in"),
	PYXIS("container-mounts", REQUIRED, "SRC:DST,...", "Directories to mount in the container"),
	PYXIS("container-workdir", REQUIRED, "PATH", "Working directory in the container"),
	PYXIS("container-name", REQUIRED, "NAME", "Name under which the container is kept"),
	PYXIS("container-save", REQUIRED, "PATH", "Save the container to this file"),
	PYXIS("container-mount-home", NONE, NULL, "Mount the home directory"),
	PYXIS("no-container-mount-home", NONE, NULL, "Do not mount the home directory"),
	PYXIS("container-remap-root", NONE, NULL, "Become root in the container"),
	PYXIS("no-container-remap-root", NONE, NULL, "Do not become root in the container"),
	PYXIS("container-entrypoint", NONE, NULL, "Run the image's entry point"),
	PYXIS("no-container-entrypoint", NONE, NULL, "Do not run the image's entry point"),
	PYXIS("container-entrypoint-log", NONE, NULL, "Show the output of the entry point"),
	PYXIS("container-writable", NONE, NULL, "Make the container writable"),
	PYXIS("container-readonly", NONE, NULL, "Make the container read-only"),
	PYXIS("container-env", REQUIRED, "NAMES", "Variables that override the image's"),
	PYXIS("container-unshare", REQUIRED, "SPEC", "Namespaces that the container does not share"),

	/* Not passed on: hvdrun itself answers these. */
	{OWN("help", 'h', NONE, INFO, NULL, "Show the options and exit"), .type = HVD_OPT_SET, .at = HVD_AT(action),
	 .number = HVD_SHOW_HELP},
	{OWN("usage", 0, NONE, INFO, NULL, "Show a summary and exit"), .type = HVD_OPT_SET, .at = HVD_AT(action),
	 .number = HVD_SHOW_USAGE},
	{OWN("version", 'V', NONE, INFO, NULL, "Show the version of this program and exit"), .type = HVD_OPT_SET,
	 .at = HVD_AT(action), .number = HVD_SHOW_VERSION},
};

const struct hvd_opttable hvd_options_srun = {.rows = rows, .n = sizeof(rows) / sizeof(rows[0])};

bool hvd_options_srun_of_ranks(const struct hvd_opt *row)
{
	static const char others[] = "gpus|gpus-per-task|gpus-per-socket|tres-per-task|cpus-per-gpu|mem-per-gpu|"
				     "mem-per-cpu|licenses|exclusive|exact|oversubscribe|bb|bbf";

	return row->family == HVD_FAMILY_SRUN && (row->group == HVD_G_S_TASKS || row->group == HVD_G_S_NODES ||
						  row->group == HVD_G_S_JOB || hvd_value_index(others, row->name) >= 0);
}

bool hvd_options_srun_of_salloc(const struct hvd_opt *row)
{
	static const char unknown[] = "het-group|pack-group|relative|no-allocate|exact|overlap|whole|"
				      "resv-ports|mem-update|hold";
	static const char also[] = "hint|cpu-freq|extra-node-info|sockets-per-node|cores-per-socket|threads-per-core|"
				   "quiet|verbose|signal|profile|acctg-freq";

	if (row->family != HVD_FAMILY_SRUN || !row->pass)
		return false;
	if (row->group == HVD_G_S_TASKS || row->group == HVD_G_S_NODES || row->group == HVD_G_S_RESOURCES ||
	    row->group == HVD_G_S_JOB)
		return hvd_value_index(unknown, row->name) < 0;
	return hvd_value_index(also, row->name) >= 0;
}
