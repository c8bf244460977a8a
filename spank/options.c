/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.c - the plugin's options and the arguments of its line in plugstack.conf.
 *
 * Both come from one table: the option --hvd-start-timeout, the argument start_timeout and hvd-driver's option
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

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the options of enum hvd_setting begin with. */
#define PREFIX "hvd-"

/* The options that are no text: their numbers follow those of enum hvd_setting. */
enum {
	OPT_HVD = HVD_N_SETTINGS,
	OPT_NO_HVD,
	OPT_VERBOSE,
	/* Without effect: */
	OPT_RENDEZVOUS,
	OPT_STORE_RELAY,
};

static void replace(char **where, const char *value)
{
	free(*where);
	*where = hvd_xstrdup(value);
}

static int set_timeout(char **where, double least, const char *from, const char *value, struct hvd_err *err)
{
	double seconds;

	if (hvd_value_seconds(from, value, least, 0, &seconds, err) != 0)
		return -1;
	free(*where);
	*where = hvd_xasprintf("%.15g", seconds);
	return 0;
}

/* `choices` has the words that are allowed, "a|b". */
static int set_choice(char **where, const char *choices, const char *from, const char *value, struct hvd_err *err)
{
	int n;

	if (hvd_value_choice(from, value, choices, &n, err) != 0)
		return -1;
	replace(where, value);
	return 0;
}

static int set_frameworks(char **where, const char *from, const char *value, struct hvd_err *err)
{
	unsigned set;

	if (hvd_frameworks_parse(from, value, &set, err) != 0)
		return -1;
	replace(where, value);
	return 0;
}

/* A value whose check has returned `rc`. */
static int set_checked(char **where, const char *value, int rc)
{
	if (rc == 0)
		replace(where, value);
	return rc;
}

static int set_number(char **where, double max, const char *from, const char *value, struct hvd_err *err)
{
	double n;

	if (hvd_value_number(from, value, 0, max, &n, err) != 0)
		return -1;
	free(*where);
	*where = hvd_xasprintf("%.0f", n);
	return 0;
}

/* `join`: add to the list that is there. */
static int set_nics(char **where, bool join, const char *from, const char *value, struct hvd_err *err)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv list = {0};
	hvd_cleanup_free char *had = NULL;

	if (hvd_value_list(from, value, &list, err) != 0 || hvd_nicspec_check(value, err) != 0)
		return -1;
	had = *where;
	*where = join && had ? hvd_xasprintf("%s,%s", had, value) : hvd_xstrdup(value);
	return 0;
}

/* Check a value, and set it in `opt`. `id` is the number of an option; `from` names the option, or the argument of
 * plugstack.conf, in messages. -1 with err set. */
static int set(struct hvd_plugin_opt *opt, int id, bool join, const char *from, const char *value, struct hvd_err *err)
{
	switch (id) {
	case OPT_HVD:
	case OPT_NO_HVD:
		opt->enabled = id == OPT_HVD;
		return 0;
	case OPT_VERBOSE:
		opt->verbose = *value ? atoi(value) : 1;
		return 0;
	case HVD_NICS:
		return set_nics(&opt->text[id], join, from, value, err);
	case HVD_SPARES:
		return set_number(&opt->text[id], HVD_VALUES_MOST_SPARES, from, value, err);
	case HVD_STDERR_LINES:
		return set_number(&opt->text[id], HVD_VALUES_MOST_LINES, from, value, err);
	case HVD_PREFLIGHT:
		return set_choice(&opt->text[id], HVD_VALUES_PREFLIGHT, from, value, err);
	case HVD_HANG_TIMEOUT:
		return set_timeout(&opt->text[id], 0, from, value, err);
	case HVD_HANG_ACTION:
		return set_choice(&opt->text[id], HVD_VALUES_HANG_ACTION, from, value, err);
	case HVD_SIGNAL_RANKS:
		return set_checked(&opt->text[id], value,
				   hvd_value_signal_before(from, value, &(int){0}, &(double){0}, err));
	case HVD_REQUEUE_ON:
		return set_checked(&opt->text[id], value,
				   hvd_value_set(from, value, HVD_VALUES_REQUEUE_ON, &(unsigned){0}, err));
	case HVD_START_TIMEOUT:
		return set_timeout(&opt->text[id], HVD_VALUES_LEAST_TIMEOUT, from, value, err);
	case HVD_INIT_TIMEOUT:
		return set_timeout(&opt->text[id], 0, from, value, err);
	case OPT_RENDEZVOUS:
	case OPT_STORE_RELAY:
		return 0;
	case HVD_STORE:
		return set_choice(&opt->text[id], HVD_STORE_WORDS, from, value, err);
	case HVD_FRAMEWORKS:
		return set_frameworks(&opt->text[id], from, value, err);
	default:
		if (hvd_value_text(from, value, err) != 0)
			return -1;
		replace(&opt->text[id], value);
		return 0;
	}
}

static int on_option(int val, const char *value, int remote);

static struct spank_option options[] = {
	{(char *)"hvd", NULL, (char *)"Start ranks of PyTorch, JAX, Horovod …: rendezvous, interfaces.", 0, OPT_HVD,
	 on_option},
	{(char *)"no-hvd", NULL, (char *)"Undo an --hvd given to sbatch or salloc.", 0, OPT_NO_HVD, on_option},
	{(char *)"hvd-nics", (char *)"LIST",
	 (char *)"Use these network interfaces only: names, ib*, 10.77.0.0/24, ^docker0 (default: find them).", 1,
	 HVD_NICS, on_option},
	{(char *)"hvd-start-timeout", (char *)"SEC", (char *)"Give up when the start takes longer (default 30).", 1,
	 HVD_START_TIMEOUT, on_option},
	{(char *)"hvd-rendezvous", (char *)"WHERE", (char *)"Without effect.", 1, OPT_RENDEZVOUS, on_option},
	{(char *)"hvd-store", (char *)HVD_STORE_WORDS,
	 (char *)"Who serves the store of PyTorch (MASTER_ADDR, MASTER_PORT): this launch, rank 0, or none is set.", 1,
	 HVD_STORE, on_option},
	{(char *)"hvd-store-relay", (char *)"WHEN", (char *)"Without effect.", 1, OPT_STORE_RELAY, on_option},
	{(char *)"hvd-frameworks", (char *)"LIST|auto|none",
	 (char *)"Whose variables ranks get: horovod,torch,jax,... (default auto: all but tensorflow).", 1,
	 HVD_FRAMEWORKS, on_option},
	{(char *)"hvd-init-timeout", (char *)"SEC",
	 (char *)"Give up when some ranks call init_process_group() so much later than the first (default 0: never).",
	 1, HVD_INIT_TIMEOUT, on_option},
	{(char *)"hvd-preflight", (char *)HVD_VALUES_PREFLIGHT,
	 (char *)"Look at all nodes before the ranks start; full also measures the network (default off).", 1,
	 HVD_PREFLIGHT, on_option},
	{(char *)"hvd-spares", (char *)"N",
	 (char *)"The step has N nodes more than it needs: leave the worst ones out (default 0).", 1, HVD_SPARES,
	 on_option},
	{(char *)"hvd-hang-timeout", (char *)"SEC",
	 (char *)"Report where the ranks are when none has made progress for so long (default 0: never).", 1,
	 HVD_HANG_TIMEOUT, on_option},
	{(char *)"hvd-hang-action", (char *)HVD_VALUES_HANG_ACTION,
	 (char *)"What to do then, after the report (default report: nothing).", 1, HVD_HANG_ACTION, on_option},
	{(char *)"hvd-signal-ranks", (char *)"SIG@SEC",
	 (char *)"Send all ranks a signal so long before the time limit, as in USR1@300.", 1, HVD_SIGNAL_RANKS,
	 on_option},
	{(char *)"hvd-requeue-on", (char *)"LIST",
	 (char *)"When to requeue the batch job: limit,node,preempt,ask,hang (default none).", 1, HVD_REQUEUE_ON,
	 on_option},
	{(char *)"hvd-stderr-lines", (char *)"N",
	 (char *)"Keep the last lines of stderr of each rank for the report of a failure (default 20).", 1,
	 HVD_STDERR_LINES, on_option},
	{(char *)"hvd-trace", (char *)"FILE", (char *)"Write the phases of the start as a Chrome trace.", 1, HVD_TRACE,
	 on_option},
	{(char *)"hvd-verbose", NULL, (char *)"Say why interfaces and addresses were chosen.", 0, OPT_VERBOSE,
	 on_option},
	{(char *)"hvd-config", (char *)"FILE", (char *)"Read tunables and defaults from this file.", 1, HVD_CONFIG,
	 on_option},
	{(char *)"hvd-key-file", (char *)"FILE",
	 (char *)"Identify ranks by the secret in this file, which all hosts can read.", 1, HVD_KEY_FILE, on_option},
};

#define N_OPTIONS (sizeof(options) / sizeof(options[0]))

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

static const struct spank_option *option_of(int val)
{
	for (size_t i = 0; i < N_OPTIONS; i++)
		if (options[i].val == val)
			return &options[i];
	return &options[0];
}

/* Called by Slurm for each option that was given. An invalid value is remembered for hvd_plugin_check(), which says why
 * it is invalid and has srun end with status 2; if this function failed, srun would not say why, and end with 255. */
static int on_option(int val, const char *value, int remote)
{
	const char *name = option_of(val)->name;
	bool again = hvd_plugin.given & 1U << val;
	struct hvd_err err = {0};
	char from[64];

	/* slurmstepd gets the options too. They are of no use there: the driver knows them. */
	if (remote)
		return 0;
	if (!value)
		value = "";
	snprintf(from, sizeof(from), "option --%s", name);
	if (!again && !(hvd_plugin.of_job & 1U << val) && spank_context() == S_CTX_LOCAL && from_job(name, value))
		hvd_plugin.of_job |= 1U << val;
	else
		hvd_plugin.given |= 1U << val;
	if (again && val == HVD_NICS && spank_context() != S_CTX_LOCAL) {
		hvd_err_set(&err, HVD_E_USAGE, "%s: sbatch and salloc keep one of several only", from);
		hvd_err_hint(&err, "write one list: --hvd-nics=%s,%s",
			     hvd_plugin.opt.text[HVD_NICS] ? hvd_plugin.opt.text[HVD_NICS] : "", value);
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
	for (size_t i = 0; spank_context() == S_CTX_LOCAL && i < N_OPTIONS; i++)
		if (options[i].val >= OPT_RENDEZVOUS && pl->given & 1U << options[i].val)
			slurm_info("hvd: --%s has no effect: the rendezvous runs with srun, and ranks meet at an agent "
				   "on their host",
				   options[i].name);
	if (spank_context() != S_CTX_LOCAL || hvd_plugin_enabled(pl) || pl->opt.enabled == 0)
		return 0;
	for (size_t i = 0; i < N_OPTIONS; i++)
		if (pl->given & 1U << options[i].val)
			slurm_info("hvd: --%s does nothing without --hvd", options[i].name);
	return 0;
}

int hvd_plugin_options(spank_t sp)
{
	for (size_t i = 0; i < N_OPTIONS; i++) {
		spank_err_t rc = spank_option_register(sp, &options[i]);

		if (rc != ESPANK_SUCCESS) {
			slurm_error("hvd: cannot register --%s: %s", options[i].name, spank_strerror(rc));
			return -1;
		}
	}
	return 0;
}

/* Is this the argument of that option? start_timeout is that of --hvd-start-timeout. */
static bool is_argument(const char *option, const char *key, size_t len)
{
	if (strncmp(option, PREFIX, strlen(PREFIX)) != 0)
		return false;
	option += strlen(PREFIX);
	for (size_t i = 0; i < len; i++)
		if (!option[i] || key[i] != (option[i] == '-' ? '_' : option[i]))
			return false;
	return !option[len];
}

static int set_flag(int *flag, const char *from, const char *value, struct hvd_err *err)
{
	if (strcmp(value, "0") != 0 && strcmp(value, "1") != 0)
		return hvd_err_set(err, HVD_E_USAGE, "%s: must be 0 or 1", from);
	*flag = value[0] - '0';
	return 0;
}

static bool is_key(const char *name, const char *key, size_t len)
{
	return strlen(name) == len && strncmp(name, key, len) == 0;
}

/* The first `len` bytes of `key` are the argument's name. */
static int set_site(struct hvd_plugin *pl, const char *key, size_t len, const char *from, const char *value,
		    struct hvd_err *err)
{
	if (is_key("libexecdir", key, len)) {
		if (*value != '/' || strlen(value) >= sizeof(pl->site.libexecdir))
			return hvd_err_set(err, HVD_E_USAGE, "%s: must be an absolute path", from);
		memcpy(pl->site.libexecdir, value, strlen(value) + 1);
		return 0;
	}
	if (is_key("kill_on_bad_exit", key, len))
		return set_flag(&pl->site.kill_on_bad_exit, from, value, err);
	if (is_key("enabled", key, len))
		return set_flag(&pl->site.defaults.enabled, from, value, err);
	for (size_t i = 0; i < N_OPTIONS; i++)
		if (is_argument(options[i].name, key, len))
			return set(&pl->site.defaults, options[i].val, false, from, value, err);
	return hvd_err_set(err, HVD_E_USAGE,
			   "%s: no such key (known: nics start_timeout store frameworks "
			   "init_timeout preflight "
			   "spares hang_timeout hang_action signal_ranks requeue_on stderr_lines trace verbose config "
			   "key_file libexecdir kill_on_bad_exit enabled)",
			   from);
}

static int site_arg(struct hvd_plugin *pl, const char *arg, struct hvd_err *err)
{
	const char *value = strchr(arg, '=');
	char from[128];

	if (!value && strcmp(arg, "late") == 0)
		return hvd_err_set(err, HVD_E_USAGE, "plugstack argument \"late\" must be the only one of its line");
	if (!value)
		return hvd_err_set(err, HVD_E_USAGE, "plugstack argument \"%s\" is not of the form key=value", arg);
	snprintf(from, sizeof(from), "plugstack argument \"%.100s\"", arg);
	if (set_site(pl, arg, (size_t)(value - arg), from, value + 1, err) == 0)
		return 0;
	return hvd_err_hint(err, "mend the line of hvd.so in plugstack.conf, see spank-hvd(8)");
}

int hvd_plugin_site_args(struct hvd_plugin *pl, int argc, char **argv, struct hvd_err *err)
{
	for (int i = 0; i < argc; i++)
		if (site_arg(pl, argv[i], err) != 0)
			return -1;
	return 0;
}

const char *hvd_plugin_value(const struct hvd_plugin *pl, enum hvd_setting setting)
{
	return pl->opt.text[setting] ? pl->opt.text[setting] : pl->site.defaults.text[setting];
}

const char *hvd_plugin_setting_name(enum hvd_setting setting)
{
	return option_of(setting)->name + strlen(PREFIX);
}

bool hvd_plugin_enabled(const struct hvd_plugin *pl)
{
	if (pl->opt.enabled != HVD_OPT_UNSET)
		return pl->opt.enabled == 1;
	return pl->site.defaults.enabled == 1;
}
