/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.c - the plugin's options and the arguments of its line in plugstack.conf.
 *
 * Both come from lib/base/settings.def: the option --hvd-start-timeout, the argument start_timeout and hvdrun's option
 * --start-timeout are the same setting.
 *
 * Slurm calls on_option() twice for an option that was given twice: first with the value that sbatch handed down in the
 * environment, then with that of srun's own command line. The later value holds, so `srun --no-hvd` undoes
 * `sbatch --hvd`.
 */
#include "plugin.h"

#include "lib/base/cleanup.h"
#include "lib/base/values.h"
#include "lib/base/xalloc.h"
#include "lib/frameworks/frameworks.h"
#include "lib/net/nicspec.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the options of settings begin with. */
#define PREFIX "hvd-"

#define ARG_SECONDS(least) .arg = "SECONDS"
#define ARG_NUMBER(most)   .arg = "NUMBER"
#define ARG_CHOICE(words)  .arg = words
#define ARG_WORDS(words)   .arg = "LIST"
#define ARG_SIGNAL()       .arg = "SIGNAL@SECONDS"
#define ARG_INTERFACES()   .arg = "LIST", .joins = true
#define ARG_FRAMEWORKS()   .arg = "LIST|auto|none"
#define ARG_TEXT(word)     .arg = word

static const struct {
	const char *name, *arg, *help, *def;
	const char *setting; /* the name that hvd-driver knows it by */
	bool joins;          /* the values of an option that is repeated are one list */
} rows[] = {
	[HVD_OPT_HVD] = {.name = "hvd", .help = "Start ranks of PyTorch, JAX, Horovod …: rendezvous, interfaces"},
	[HVD_OPT_NO_HVD] = {.name = "no-hvd", .help = "Undo an --hvd given to sbatch or salloc"},
	[HVD_OPT_VERBOSE] = {.name = PREFIX "verbose", .help = "Report why interfaces and addresses were chosen"},
#define SETTING(field, id, whose, group, kind, env, value, text, more)                                                 \
	[HVD_SET_##field] = {.name = PREFIX id, .setting = id, .help = text, .def = value, ARG_##kind},
#define HOROVOD_SETTING(field, id, plugin, whose, group, kind, env, value, text, more)                                 \
	[HVD_SET_##field] = {.name = PREFIX plugin, .setting = id, .help = text, .def = value, ARG_##kind},
#include "lib/base/settings.def"
};

struct hvd_plugin hvd_plugin = {
	.srun_status = -1,
	.opt = {.enabled = HVD_OPT_UNSET, .verbose = HVD_OPT_UNSET},
	.site =
		{
			.defaults = {.enabled = HVD_OPT_UNSET, .verbose = HVD_OPT_UNSET},
			.libexecdir = HVD_LIBEXECDIR,
			.kill_on_bad_exit = 1,
			.newer_slurm = 1,
		},
	.driver_fd = -1,
};

_Static_assert(HVD_N_OPTIONS <= 32, "hvd_plugin.given has a bit for each option");

/* Read a value as hvdrun does, only to see whether it is valid. -1 with err set. */
static int check(int id, const char *from, const char *value, struct hvd_err *err)
{
	unsigned bits;
	double seconds;
	int n;

#define CHECK_SECONDS(least) hvd_value_seconds(from, value, least, 0, &seconds, err)
#define CHECK_NUMBER(most)   hvd_value_int(from, value, 0, most, &n, err)
#define CHECK_CHOICE(words)  hvd_value_choice(from, value, words, &n, err)
#define CHECK_WORDS(words)   hvd_value_set(from, value, words, &bits, err)
#define CHECK_SIGNAL()       hvd_value_signal_before(from, value, &n, &seconds, err)
#define CHECK_INTERFACES()   hvd_nicspec_check(from, value, err)
#define CHECK_FRAMEWORKS()   hvd_frameworks_parse(from, value, &bits, err)
#define CHECK_TEXT(word)     hvd_value_text(from, value, err)
	switch (id) {
#define SETTING(field, name, whose, group, kind, env, def, help, more)                                                 \
	case HVD_SET_##field:                                                                                          \
		return CHECK_##kind;
#define HOROVOD_SETTING(field, name, plugin, whose, group, kind, env, def, help, more)                                 \
	SETTING(field, name, whose, group, kind, env, def, help, more)
#include "lib/base/settings.def"
	}
	return 0;
}

/* Check a value, and set it in `opt`. `join`: add to the list that is there. `from` names the option, or the argument
 * of plugstack.conf, in messages. -1 with err set. */
static int set(struct hvd_plugin_opt *opt, int id, bool join, const char *from, const char *value, struct hvd_err *err)
{
	hvd_cleanup_free char *had = NULL;

	if (id == HVD_OPT_VERBOSE)
		opt->verbose = *value ? atoi(value) : 1;
	else if (id < HVD_OPT_VERBOSE)
		opt->enabled = id == HVD_OPT_HVD;
	if (!rows[id].setting)
		return 0;
	if (check(id, from, value, err) != 0)
		return -1;
	had = opt->text[id];
	if (join && had && rows[id].joins)
		opt->text[id] = hvd_xasprintf("%s,%s", had, value);
	else
		opt->text[id] = hvd_xstrdup(value);
	return 0;
}

/* Was this value given to sbatch or salloc? Slurm hands it down to srun in a variable of the environment, one for each
 * option, and calls on_option() for it before it does so for srun's own options. */
static bool from_job(const char *name, const char *value)
{
	char variable[80] = "_SLURM_SPANK_OPTION_hvd_";
	size_t n = strlen(variable);
	const char *text;

	for (; *name && n + 1 < sizeof(variable); name++)
		variable[n++] = *name == '-' ? '_' : *name;
	variable[n] = '\0';
	text = getenv(variable);
	return text && strcmp(text, value) == 0;
}

/* Called by Slurm for each option that was given. An invalid value is remembered for hvd_plugin_check(), which says why
 * it is invalid and has srun end with status 2; if this function failed, srun would not say why, and end with 255. */
static int on_option(int val, const char *value, int remote)
{
	const char *name = rows[val].name;
	bool again = hvd_plugin.given & 1U << val;
	struct hvd_err err = {0};
	char from[64];

	/* slurmstepd gets the options too, and ignores them: the driver has them. */
	if (remote)
		return 0;
	if (!value)
		value = "";
	snprintf(from, sizeof(from), "option --%s", name);
	if (!again && !(hvd_plugin.of_job & 1U << val) && spank_context() == S_CTX_LOCAL && from_job(name, value))
		hvd_plugin.of_job |= 1U << val;
	else
		hvd_plugin.given |= 1U << val;
	if (again && rows[val].joins && spank_context() != S_CTX_LOCAL) {
		hvd_err_set(&err, HVD_E_USAGE, "%s: sbatch and salloc keep only one of several values", from);
		hvd_err_hint(&err, "write one list: --%s=%s,%s", name,
			     hvd_plugin.opt.text[val] ? hvd_plugin.opt.text[val] : "", value);
	} else {
		set(&hvd_plugin.opt, val, again, from, value, &err);
	}
	if (err.code && !hvd_plugin.wrong.code)
		hvd_plugin.wrong = err;
	return 0;
}

int hvd_plugin_check(const struct hvd_plugin *pl, struct hvd_err *err)
{
	if (pl->wrong.code) {
		*err = pl->wrong;
		return -1;
	}
	if (spank_context() != S_CTX_LOCAL || hvd_plugin_enabled(pl) || pl->opt.enabled == 0)
		return 0;
	for (int i = 0; i < HVD_N_OPTIONS; i++)
		if (pl->given & 1U << i)
			slurm_info("hvd: --%s does nothing without --hvd", rows[i].name);
	return 0;
}

int hvd_plugin_options(spank_t sp)
{
	static struct spank_option options[HVD_N_OPTIONS]; /* with their texts they stay: Slurm may not copy them */

	for (int i = 0; i < HVD_N_OPTIONS; i++) {
		spank_err_t rc;

		options[i] = (struct spank_option){
			.name = (char *)rows[i].name,
			.arginfo = (char *)rows[i].arg,
			.usage = rows[i].def ? hvd_xasprintf("%s (default %s).", rows[i].help, rows[i].def)
					     : hvd_xasprintf("%s.", rows[i].help),
			.has_arg = rows[i].arg != NULL,
			.val = i,
			.cb = on_option,
		};
		rc = spank_option_register(sp, &options[i]);
		if (rc != ESPANK_SUCCESS) {
			slurm_error("hvd: cannot register --%s: %s", rows[i].name, spank_strerror(rc));
			return -1;
		}
	}
	return 0;
}

static int set_flag(int *flag, const char *from, const char *value, struct hvd_err *err)
{
	if (strcmp(value, "0") != 0 && strcmp(value, "1") != 0)
		return hvd_err_set(err, HVD_E_USAGE, "%s: must be 0 or 1", from);
	*flag = value[0] - '0';
	return 0;
}

static int set_site(struct hvd_plugin *pl, const char *key, const char *from, const char *value, struct hvd_err *err)
{
	hvd_cleanup_free char *known = hvd_xstrdup("");
	char name[64];

	if (strcmp(key, "libexecdir") == 0) {
		if (*value != '/' || strlen(value) >= sizeof(pl->site.libexecdir))
			return hvd_err_set(err, HVD_E_USAGE, "%s: must be an absolute path", from);
		memcpy(pl->site.libexecdir, value, strlen(value) + 1);
		return 0;
	}
	if (strcmp(key, "kill_on_bad_exit") == 0)
		return set_flag(&pl->site.kill_on_bad_exit, from, value, err);
	if (strcmp(key, "newer_slurm") == 0)
		return set_flag(&pl->site.newer_slurm, from, value, err);
	if (strcmp(key, "enabled") == 0)
		return set_flag(&pl->site.defaults.enabled, from, value, err);
	for (int i = HVD_OPT_VERBOSE; i < HVD_N_OPTIONS; i++) {
		/* The key of --hvd-start-timeout is start_timeout. */
		snprintf(name, sizeof(name), "%s", rows[i].name + strlen(PREFIX));
		for (char *p = name; *p; p++)
			*p = *p == '-' ? '_' : *p;
		if (strcmp(name, key) == 0)
			return set(&pl->site.defaults, i, false, from, value, err);
		hvd_xappendf(&known, "%s ", name);
	}
	return hvd_err_set(err, HVD_E_USAGE,
			   "%s: no such key (known: %slibexecdir kill_on_bad_exit newer_slurm enabled)", from, known);
}

static int site_arg(struct hvd_plugin *pl, const char *arg, struct hvd_err *err)
{
	const char *value = strchr(arg, '=');
	hvd_cleanup_free char *key = NULL;
	char from[128];

	if (!value && strcmp(arg, "late") == 0)
		return hvd_err_set(err, HVD_E_USAGE, "plugstack argument \"late\" must be the only one of its line");
	if (!value)
		return hvd_err_set(err, HVD_E_USAGE, "plugstack argument \"%s\" is not of the form key=value", arg);
	snprintf(from, sizeof(from), "plugstack argument \"%.100s\"", arg);
	key = hvd_xstrndup(arg, (size_t)(value - arg));
	if (set_site(pl, key, from, value + 1, err) == 0)
		return 0;
	return hvd_err_hint(err, "correct the line of hvd.so in plugstack.conf, see spank-hvd(8)");
}

/* The programs are found from PREFIX/lib/slurm/hvd.so, wherever PREFIX was moved or unpacked to. */
static void find_programs(struct hvd_plugin *pl)
{
	char own[PATH_MAX], libexec[PATH_MAX];
	char *slash = NULL;
	Dl_info info;

	if (dladdr(pl, &info) && info.dli_fname && *info.dli_fname == '/' && realpath(info.dli_fname, own))
		slash = strrchr(own, '/');
	if (!slash)
		return;
	*slash = '\0';
	hvd_cleanup_free char *dir = hvd_xasprintf("%s/../../libexec/hvd", own);
	hvd_cleanup_free char *program = hvd_xasprintf("%s/hvd-driver", dir);
	if (access(program, X_OK) == 0 && realpath(dir, libexec))
		memcpy(pl->site.libexecdir, libexec, strlen(libexec) + 1);
}

int hvd_plugin_site_args(struct hvd_plugin *pl, int argc, char **argv, struct hvd_err *err)
{
	find_programs(pl);
	for (int i = 0; i < argc; i++)
		if (site_arg(pl, argv[i], err) != 0)
			return -1;
	return 0;
}

const char *hvd_plugin_value(const struct hvd_plugin *pl, enum hvd_plugin_option setting)
{
	return pl->opt.text[setting] ? pl->opt.text[setting] : pl->site.defaults.text[setting];
}

const char *hvd_plugin_setting_name(enum hvd_plugin_option setting)
{
	return rows[setting].setting;
}

bool hvd_plugin_enabled(const struct hvd_plugin *pl)
{
	if (pl->opt.enabled != HVD_OPT_UNSET)
		return pl->opt.enabled == 1;
	return pl->site.defaults.enabled == 1;
}
