/* SPDX-License-Identifier: Apache-2.0 */
#include "other_launcher.h"

#include "interpreter.h"
#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The most bytes of a line that is shown. */
#define LINE_MAX_CHARS 240

enum {
	NOTHING,
	NP,
	PER_HOST,
	NODES,
	MODULE,
	PLAIN,
};

#define ADDRESS "leave it out: the launch sets every rank's number, MASTER_ADDR and MASTER_PORT"
#define HOSTS                                                                                                          \
	"leave it out, or write -N NUMBER to have Slurm create a job. The hosts are those of the job or of --hosts, "  \
	"or this machine; --min-np and --max-np, which count ranks, are for elastic jobs"
#define EACH    "write --slots-per-host=NUMBER for the ranks of each host, or -np NUMBER for all of them"
#define COMMAND "write the command as in a shell: python train.py, python -m MODULE, ./program"
#define FILES   "write --output-filename=DIRECTORY, which gets files of each rank's output"
#define RANKS   "write -np NUMBER"
#define OWN     "leave it out: each rank is a process of its own"
#define CONFIG  "leave it out: the program reads it (ACCELERATE_CONFIG_FILE, ACCELERATE_MIXED_PRECISION …)"

/* A "*" at the end of a name stands for anything. Options that hvdrun has, too, are not in this table. */
static const struct row {
	const char *name;
	struct hvd_other_option option;
} rows[] = {
	{"nproc-per-node", {"torchrun", EACH, 1, PER_HOST}},
	{"nnodes", {"torchrun", HOSTS, 1, NODES}},
	{"node-rank", {"torchrun", ADDRESS, 1, NOTHING}},
	{"master-addr", {"torchrun", ADDRESS, 1, NOTHING}},
	{"master-port", {"torchrun", ADDRESS, 1, NOTHING}},
	{"local-addr", {"torchrun", ADDRESS, 1, NOTHING}},
	{"rdzv-*", {"torchrun", ADDRESS, 1, NOTHING}},
	{"standalone",
	 {"torchrun", "leave it out: without a job and without listed hosts, ranks run on this machine", 0, NOTHING}},
	{"monitor-interval", {"torchrun", "leave it out: the launch notices the end of a rank at once", 1, NOTHING}},
	{"start-method", {"torchrun", OWN, 1, NOTHING}},
	{"module", {"torchrun", COMMAND, 0, MODULE}},
	{"no-python", {"torchrun", COMMAND, 0, PLAIN}},
	{"run-path", {"torchrun", COMMAND, 0, NOTHING}},
	{"log-dir", {"torchrun", FILES, 1, NOTHING}},
	{"redirects", {"torchrun", FILES, 1, NOTHING}},
	{"tee", {"torchrun", FILES, 1, NOTHING}},
	{"local-ranks-filter", {"torchrun", FILES, 1, NOTHING}},
	{"role", {"torchrun", ADDRESS, 1, NOTHING}},
	{"logs-specs", {"torchrun", FILES, 1, NOTHING}},
	{"numa-binding", {"torchrun", "leave it out, or write --cpu-bind=cores", 1, NOTHING}},
	{"signals-to-handle", {"torchrun", "leave it out: the launch handles signals", 1, NOTHING}},
	{"num-processes", {"accelerate", RANKS, 1, NP}},
	{"num-machines", {"accelerate", HOSTS, 1, NODES}},
	{"machine-rank", {"accelerate", ADDRESS, 1, NOTHING}},
	{"main-process-ip", {"accelerate", ADDRESS, 1, NOTHING}},
	{"main-process-port", {"accelerate", ADDRESS, 1, NOTHING}},
	{"same-network", {"accelerate", ADDRESS, 0, NOTHING}},
	{"multi-gpu", {"accelerate", OWN, 0, NOTHING}},
	{"mixed-precision", {"accelerate", CONFIG, 1, NOTHING}},
	{"use-deepspeed", {"accelerate", CONFIG, 0, NOTHING}},
	{"use-fsdp", {"accelerate", CONFIG, 0, NOTHING}},
	{"gpu-ids", {"accelerate", "set CUDA_VISIBLE_DEVICES", 1, NOTHING}},
	{"num-cpu-threads-per-process", {"accelerate", "set OMP_NUM_THREADS", 1, NOTHING}},
	{"num-gpus", {"deepspeed", EACH, 1, PER_HOST}},
	{"num-nodes", {"deepspeed", HOSTS, 1, NODES}},
	{"include",
	 {"deepspeed",
	  "write --hosts HOST:NUMBER,… with the number of ranks of each host, and CUDA_VISIBLE_DEVICES for certain "
	  "GPUs",
	  1, NOTHING}},
};

/* Are the names equal, if "_" counts as "-"? `n`: the length of what was written. */
static bool same(const char *name, const char *written, size_t n)
{
	for (; *name && *name != '*'; name++, written++, n--)
		if (!n || *name != (*written == '_' ? '-' : *written))
			return false;
	return *name == '*' || !n;
}

const struct hvd_other_option *hvd_other_option(const char *word, bool *equals)
{
	size_t n;

	if (strncmp(word, "--", 2) != 0)
		return NULL;
	n = strcspn(word + 2, "=");
	*equals = word[2 + n] == '=';
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (same(rows[i].name, word + 2, n))
			return &rows[i].option;
	return NULL;
}

/* A number, or the second one of "1:4"; 0: it is none ("gpu", "auto"). */
static int number(const char *text)
{
	const char *colon = text ? strchr(text, ':') : NULL;
	long n = text ? strtol(colon ? colon + 1 : text, NULL, 10) : 0;

	return n > 0 && n < 1000000 ? (int)n : 0;
}

void hvd_other_option_take(const struct hvd_other_option *option, const char *value, struct hvd_other_launch *launch)
{
	switch (option->what) {
	case NP:
		launch->np = number(value);
		break;
	case PER_HOST:
		launch->per_host = number(value);
		break;
	case NODES:
		launch->nodes = number(value);
		break;
	case MODULE:
		launch->module = true;
		break;
	case PLAIN:
		launch->plain = true;
		break;
	default:
		break;
	}
}

static bool ends(const char *name, const char *with)
{
	size_t n = strlen(name), m = strlen(with);

	return n > m && strcmp(name + n - m, with) == 0;
}

void hvd_other_launch_command(struct hvd_other_launch *launch, char *const *words)
{
	if (!words[0])
		return;
	if (launch->module || (!launch->plain && ends(words[0], ".py")))
		hvd_strv_add(&launch->command, "python");
	if (launch->module)
		hvd_strv_add(&launch->command, "-m");
	hvd_strv_add_all(&launch->command, words);
}

char *hvd_other_launch_text(const struct hvd_other_launch *launch)
{
	char *line = hvd_xstrdup("");

	for (size_t i = 0; i < launch->command.n; i++) {
		hvd_cleanup_free char *word = hvd_shell_quote(launch->command.v[i]);

		if (strlen(line) + strlen(word) > LINE_MAX_CHARS) {
			hvd_xappendf(&line, " …");
			break;
		}
		hvd_xappendf(&line, "%s%s", i ? " " : "", word);
	}
	return line;
}

/* ---- launchers ---- */

enum kind {
	OF_HOST, /* one on each host may start the ranks there */
	OF_ALL,  /* starts the ranks of all hosts */
	SLURMS,  /* starts the ranks of all hosts, and hvdrun has its options */
	OWN_KIND,
};

static const struct launcher {
	const char *name;
	enum kind kind;
} launchers[] = {
	{"torchrun", OF_HOST},
	{"accelerate", OF_HOST},
	{"deepspeed", OF_HOST},
	{"mpirun", OF_ALL},
	{"mpiexec", OF_ALL},
	{"orterun", OF_ALL},
	{"prterun", OF_ALL},
	{"mpiexec.hydra", OF_ALL},
	{"jsrun", OF_ALL},
	{"srun", SLURMS},
	{"hvdrun", OWN_KIND},
	{"horovodrun", OWN_KIND},
	{"torch.distributed.run", OF_HOST},
	{"torch.distributed.launch", OF_HOST},
	{"accelerate.commands.launch", OF_HOST},
	{"deepspeed.launcher.runner", OF_HOST},
};

static const struct launcher *named(const char *name)
{
	name = basename(name);
	for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++)
		if (strcmp(launchers[i].name, name) == 0)
			return &launchers[i];
	return NULL;
}

/* The launcher that the command is, and in *rest the words behind it. */
static const struct launcher *find(char *const *argv, char *const **rest)
{
	const struct launcher *found;

	argv = hvd_behind_env(argv);
	if (!argv[0])
		return NULL;
	if (hvd_is_python(argv[0])) {
		for (argv++; *argv && strcmp(*argv, "-m") != 0 && **argv == '-';)
			argv++;
		if (!argv[0] || strcmp(argv[0], "-m") != 0 || !argv[1])
			return NULL;
		argv++;
		found = strchr(argv[0], '.') ? named(argv[0]) : NULL;
		*rest = argv + 1;
		return found;
	}
	found = strstr(argv[0], "torch.distributed") ? NULL : named(argv[0]);
	*rest = argv + 1;
	if (found && strcmp(found->name, "accelerate") == 0) { /* "accelerate config" is no launch */
		if (!argv[1] || strcmp(argv[1], "launch") != 0)
			return NULL;
		*rest = argv + 2;
	}
	return found;
}

/* How many words behind an option of an MPI's mpirun, or of a launcher whose options are not all known, belong to it. */
static int words_of(enum kind kind, const char *word, const char *next)
{
	static const char *const two[] = {"mca", "pmixmca", "prtemca", "gmca", "omca", "genv", "env", NULL};
	static const char *const none[] = {"oversubscribe",
					   "allow-run-as-root",
					   "tag-output",
					   "verbose",
					   "v",
					   "q",
					   "quiet",
					   "display-map",
					   "report-bindings",
					   "nooversubscribe",
					   "bind-to-core",
					   "multi_gpu",
					   "cpu",
					   "tpu",
					   "quick",
					   "debug",
					   "no_python",
					   "no_local_rank",
					   NULL};
	const char *name = word + strspn(word, "-");

	for (int i = 0; kind == OF_ALL && two[i]; i++)
		if (strcmp(name, two[i]) == 0)
			return 2;
	for (int i = 0; none[i]; i++)
		if (strcmp(name, none[i]) == 0)
			return 0;
	return next && next[0] != '-' && !ends(next, ".py") && !strchr(word, '=');
}

static bool counts_ranks(enum kind kind, const char *word)
{
	return kind == OF_ALL && (strcmp(word, "-np") == 0 || strcmp(word, "-n") == 0 || strcmp(word, "-c") == 0 ||
				  strcmp(word, "--np") == 0 || strcmp(word, "-ppn") == 0);
}

static void read_line(enum kind kind, char *const *words, struct hvd_other_launch *launch)
{
	while (*words && (*words)[0] == '-') {
		bool equals = false;
		const struct hvd_other_option *option = kind == OF_HOST ? hvd_other_option(*words, &equals) : NULL;
		const char *value = equals ? strchr(*words, '=') + 1 : words[1];
		int n = option ? equals ? 0 : option->values : words_of(kind, *words, words[1]);

		if (option)
			hvd_other_option_take(option, value, launch);
		else if (counts_ranks(kind, *words))
			launch->np = number(value);
		else if (kind == OF_HOST && (strcmp(*words, "-m") == 0)) {
			launch->module = true;
			n = 0;
		}
		for (words++; n > 0 && *words; n--)
			words++;
	}
	hvd_other_launch_command(launch, words);
}

/* "hvdrun -N2 " with a number of ranks, if it has none. */
static char *start_of(const char *own, bool counts, const struct hvd_other_launch *launch)
{
	int n = launch->np ? launch->np : launch->per_host * (launch->nodes ? launch->nodes : 1);

	return counts || !n ? hvd_xasprintf("%s ", own) : hvd_xasprintf("%s -np %d ", own, n);
}

int hvd_other_launcher_refuse(char *const *argv, long ranks, bool crowded, const char *own, bool counts,
			      struct hvd_err *err)
{
	char *const *rest;
	const struct launcher *launcher = find(argv, &rest);
	struct hvd_other_launch launch = {0};
	hvd_cleanup_free char *line = NULL, *start = NULL;

	if (!launcher || (launcher->kind == OF_HOST && !crowded) ||
	    (ranks <= 1 && (launcher->kind == OF_ALL || launcher->kind == SLURMS)))
		return 0;
	if (launcher->kind == OF_HOST || launcher->kind == OF_ALL)
		read_line(launcher->kind, rest, &launch);
	else
		hvd_strv_add_all(&launch.command, rest);
	line = hvd_other_launch_text(&launch);
	start = start_of(own, counts, &launch);
	hvd_strv_free(&launch.command);
	hvd_err_set(err, HVD_E_USAGE, "%s is a launcher, too: each of its copies would start a training of its own",
		    launcher->name);
	if (launcher->kind == OWN_KIND)
		return hvd_err_hint(err, "write %s %s", launcher->name, line);
	if (launcher->kind == SLURMS)
		return hvd_err_hint(err, "write srun --hvd %s, or hvdrun %s", line, line);
	if (launcher->kind == OF_ALL)
		return hvd_err_hint(err, "write %s%s; for a program that uses MPI hvdrun --mpi", start, line);
	return hvd_err_hint(err, "write %s%s, a rank for each GPU; or start one %s on each host (--ntasks-per-node=1)",
			    start, line, launcher->name);
}
