/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.c - the plugin's options and plugstack arguments, as tables.
 *
 * A callback may run twice: first for what sbatch handed down through the
 * environment, then for srun's own command line. The later one holds, so
 * `srun --no-hvd` undoes `sbatch --hvd`.
 */
#include "plugin.h"

#include "lib/base/values.h"
#include "lib/net/nicspec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum opt_id {
	OPT_HVD,
	OPT_NO_HVD,
	OPT_NICS,
	OPT_START_TIMEOUT,
	OPT_RENDEZVOUS,
	OPT_TRACE,
	OPT_VERBOSE,
	OPT_CONFIG,
	OPT_KEY_FILE,
};

static int replace(char **where, const char *value, struct hvd_err *err)
{
	char *copy = strdup(value);

	if (!copy)
		return hvd_err_sys(err, "no memory for the options of hvd.so");
	free(*where);
	*where = copy;
	return 0;
}

static int set_timeout(char **where, const char *from, const char *value, struct hvd_err *err)
{
	double seconds;
	char text[40];

	if (hvd_value_seconds(from, value, HVD_VALUES_LEAST_TIMEOUT, 0, &seconds, err) != 0)
		return -1;
	snprintf(text, sizeof(text), "%.15g", seconds);
	return replace(where, text, err);
}

static int set_rendezvous(char **where, const char *from, const char *value, struct hvd_err *err)
{
	static const char *const words[] = {"auto", "launch", "batch"};
	int n;

	if (hvd_value_choice(from, value, HVD_VALUES_RENDEZVOUS, &n, err) != 0)
		return -1;
	return replace(where, words[n], err);
}

/* `join`: add to what there is. */
static int set_nics(char **where, bool join, const char *from, const char *value, struct hvd_err *err)
{
	struct hvd_strv list = {0};
	char *all = NULL;
	int rc = hvd_value_list(from, value, &list, err);

	hvd_strv_free(&list);
	if (rc == 0)
		rc = hvd_nicspec_check(value, err);
	if (rc == 0 && join && *where) {
		if (asprintf(&all, "%s,%s", *where, value) < 0)
			return hvd_err_sys(err, "no memory for the options of hvd.so");
		free(*where);
		*where = all;
		return 0;
	}
	return rc == 0 ? replace(where, value, err) : -1;
}

/* One setter for options and plugstack arguments; `from` tells the two apart in messages. */
static int set(struct hvd_plugin_opt *opt, enum opt_id id, bool join, const char *from, const char *value,
	       struct hvd_err *err)
{
	switch (id) {
	case OPT_HVD:
		opt->enabled = 1;
		return 0;
	case OPT_NO_HVD:
		opt->enabled = 0;
		return 0;
	case OPT_VERBOSE:
		opt->verbose = value && *value ? atoi(value) : 1;
		return 0;
	case OPT_NICS:
		return set_nics(&opt->nics, join, from, value, err);
	case OPT_START_TIMEOUT:
		return set_timeout(&opt->start_timeout, from, value, err);
	case OPT_RENDEZVOUS:
		return set_rendezvous(&opt->rendezvous, from, value, err);
	case OPT_TRACE:
	case OPT_CONFIG:
	case OPT_KEY_FILE:
		if (hvd_value_text(from, value, err) != 0)
			return -1;
		return replace(id == OPT_TRACE    ? &opt->trace
			       : id == OPT_CONFIG ? &opt->config
						  : &opt->key_file,
			       value, err);
	}
	return hvd_err_set(err, HVD_E_USAGE, "%s is not known", from);
}

static int on_option(int val, const char *value, int remote);

static struct spank_option options[] = {
	{(char *)"hvd", NULL, (char *)"Start the ranks as a Horovod job: rendezvous, interfaces, layout.", 0, OPT_HVD,
	 on_option},
	{(char *)"no-hvd", NULL, (char *)"Undo an --hvd given to sbatch or salloc.", 0, OPT_NO_HVD, on_option},
	{(char *)"hvd-nics", (char *)"LIST",
	 (char *)"Use these network interfaces only: names, ib*, 10.77.0.0/24, ^docker0 (default: find them).", 1,
	 OPT_NICS, on_option},
	{(char *)"hvd-start-timeout", (char *)"SEC", (char *)"Give up when the start takes longer (default 30).", 1,
	 OPT_START_TIMEOUT, on_option},
	{(char *)"hvd-rendezvous", (char *)"auto|launch|batch",
	 (char *)"Where the rendezvous server runs: with srun, or on the first node.", 1, OPT_RENDEZVOUS, on_option},
	{(char *)"hvd-trace", (char *)"FILE", (char *)"Write the phases of the start as a Chrome trace.", 1, OPT_TRACE,
	 on_option},
	{(char *)"hvd-verbose", NULL, (char *)"Say why interfaces and addresses were chosen.", 0, OPT_VERBOSE,
	 on_option},
	{(char *)"hvd-config", (char *)"FILE", (char *)"Read tunables and defaults from this file.", 1, OPT_CONFIG,
	 on_option},
	{(char *)"hvd-key-file", (char *)"FILE",
	 (char *)"Identify ranks by the secret in this file, which all hosts can read.", 1, OPT_KEY_FILE, on_option},
};

#define N_OPTIONS (sizeof(options) / sizeof(options[0]))

/* What sbatch or salloc was given comes to srun in a variable, and to the same callback as srun's own options, before
 * them. Slurm keeps one value for each option there. */
static bool from_job(const char *name, const char *value)
{
	char variable[80] = "_SLURM_SPANK_OPTION_hvd_";
	size_t n = strlen(variable);
	const char *text;

	for (; *name && n + 1 < sizeof(variable); name++)
		variable[n++] = *name == '-' ? '_' : *name;
	variable[n] = '\0';
	text = getenv(variable);
	return text && strcmp(text, value ? value : "") == 0;
}

static const struct spank_option *option_of(int val)
{
	for (size_t i = 0; i < N_OPTIONS; i++)
		if (options[i].val == val)
			return &options[i];
	return &options[0];
}

/* srun would say itself that the value is invalid, and end with 255; hvd_plugin_check() says why, and ends with 2. */
static int on_option(int val, const char *value, int remote)
{
	const char *name = option_of(val)->name;
	bool again = hvd_plugin.given & 1U << val;
	struct hvd_err err = {0};
	char from[64];

	/* The step daemon gets the options too; srun has checked them, and the task asks the driver. */
	if (remote)
		return 0;
	snprintf(from, sizeof(from), "option --%s", name);
	if (!again && !(hvd_plugin.of_job & 1U << val) && spank_context() == S_CTX_LOCAL && from_job(name, value))
		hvd_plugin.of_job |= 1U << val;
	else
		hvd_plugin.given |= 1U << val;
	if (again && val == OPT_NICS && spank_context() != S_CTX_LOCAL) {
		hvd_err_set(&err, HVD_E_USAGE, "%s: sbatch and salloc keep one of several only", from);
		hvd_err_hint(&err, "write one list: --hvd-nics=%s,%s", hvd_plugin.opt.nics ? hvd_plugin.opt.nics : "",
			     value ? value : "");
	} else {
		set(&hvd_plugin.opt, (enum opt_id)val, again, from, value ? value : "", &err);
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

static const struct {
	const char *key;
	enum opt_id id;
} site_keys[] = {
	{"nics", OPT_NICS},
	{"start_timeout", OPT_START_TIMEOUT},
	{"rendezvous", OPT_RENDEZVOUS},
	{"trace", OPT_TRACE},
	{"verbose", OPT_VERBOSE},
	{"config", OPT_CONFIG},
	{"key_file", OPT_KEY_FILE},
};

static int site_arg(struct hvd_plugin *pl, const char *arg, struct hvd_err *err)
{
	const char *value = strchr(arg, '=');
	const char *wrong = NULL;
	char from[128];
	int id = -1;
	size_t len;

	if (!value) {
		if (strcmp(arg, "late") == 0)
			return hvd_err_set(err, HVD_E_USAGE,
					   "plugstack argument \"late\" must be the only one of its line");
		hvd_err_set(err, HVD_E_USAGE, "plugstack argument \"%s\" is not of the form key=value", arg);
		return -1;
	}
	len = (size_t)(value++ - arg);
	if (len == strlen("libexecdir") && strncmp(arg, "libexecdir", len) == 0) {
		if (*value != '/' || strlen(value) >= sizeof(pl->site.libexecdir))
			wrong = "must be an absolute path";
		else
			memcpy(pl->site.libexecdir, value, strlen(value) + 1);
	} else if (len == strlen("kill_on_bad_exit") && strncmp(arg, "kill_on_bad_exit", len) == 0) {
		if (strcmp(value, "0") != 0 && strcmp(value, "1") != 0)
			wrong = "must be 0 or 1";
		else
			pl->site.kill_on_bad_exit = value[0] - '0';
	} else if (len == strlen("enabled") && strncmp(arg, "enabled", len) == 0) {
		if (strcmp(value, "0") != 0 && strcmp(value, "1") != 0)
			wrong = "must be 0 or 1";
		else
			pl->site.defaults.enabled = value[0] - '0';
	} else {
		wrong = "no such key (known: nics start_timeout rendezvous trace verbose config key_file "
			"libexecdir kill_on_bad_exit enabled)";
		for (size_t i = 0; i < sizeof(site_keys) / sizeof(site_keys[0]); i++)
			if (strlen(site_keys[i].key) == len && strncmp(site_keys[i].key, arg, len) == 0)
				wrong = NULL, id = (int)site_keys[i].id;
	}
	snprintf(from, sizeof(from), "plugstack argument \"%.100s\"", arg);
	if (wrong || (id >= 0 && set(&pl->site.defaults, (enum opt_id)id, false, from, value, err) != 0)) {
		if (wrong)
			hvd_err_set(err, HVD_E_USAGE, "%s: %s", from, wrong);
		hvd_err_hint(err, "mend the line of hvd.so in plugstack.conf, see spank-hvd(8)");
		return -1;
	}
	return 0;
}

int hvd_plugin_site_args(struct hvd_plugin *pl, int argc, char **argv, struct hvd_err *err)
{
	for (int i = 0; i < argc; i++)
		if (site_arg(pl, argv[i], err) != 0)
			return -1;
	return 0;
}

const char *hvd_plugin_value(const char *opt, const char *site)
{
	return opt ? opt : site;
}

bool hvd_plugin_enabled(const struct hvd_plugin *pl)
{
	if (pl->opt.enabled != HVD_OPT_UNSET)
		return pl->opt.enabled == 1;
	return pl->site.defaults.enabled == 1;
}
