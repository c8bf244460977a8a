/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.c - the plugin's options and plugstack arguments, as tables.
 *
 * A callback may run twice: first for what sbatch handed down through the
 * environment, then for srun's own command line. The later one holds, so
 * `srun --no-hvd` undoes `sbatch --hvd`.
 */
#include "plugin.h"

#include "lib/printable.h"

#include <errno.h>
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

static int complain(const char *name, const char *value, const char *want)
{
	char shown[256];

	hvd_printable(value ? value : "", shown, sizeof(shown));
	slurm_error("hvd: --hvd-%s=%s: %s", name, shown, want);
	return -1;
}

static int check_timeout(const char *text)
{
	char *end;
	double t;

	errno = 0;
	t = strtod(text, &end);
	return errno || end == text || *end || !(t > 0 && t <= 86400) ? -1 : 0;
}

static int check_rendezvous(const char *text)
{
	return strcmp(text, "auto") == 0 || strcmp(text, "launch") == 0 || strcmp(text, "batch") == 0 ? 0 : -1;
}

static int replace(char **where, const char *value)
{
	char *copy = strdup(value);

	if (!copy)
		return -1;
	free(*where);
	*where = copy;
	return 0;
}

/* One setter for options and plugstack arguments; the name tells the two apart in messages. */
static const char *set(struct hvd_plugin_opt *opt, enum opt_id id, const char *value)
{
	if (id != OPT_HVD && id != OPT_NO_HVD && id != OPT_VERBOSE && (!value || !*value))
		return "a value is needed";
	switch (id) {
	case OPT_HVD:
		opt->enabled = 1;
		return NULL;
	case OPT_NO_HVD:
		opt->enabled = 0;
		return NULL;
	case OPT_VERBOSE:
		opt->verbose = value && *value ? atoi(value) : 1;
		return NULL;
	case OPT_NICS:
		return replace(&opt->nics, value) ? "no memory" : NULL;
	case OPT_START_TIMEOUT:
		if (check_timeout(value) != 0)
			return "must be a number of seconds from more than 0 to 86400";
		return replace(&opt->start_timeout, value) ? "no memory" : NULL;
	case OPT_RENDEZVOUS:
		if (check_rendezvous(value) != 0)
			return "must be auto, launch or batch";
		return replace(&opt->rendezvous, value) ? "no memory" : NULL;
	case OPT_TRACE:
		return replace(&opt->trace, value) ? "no memory" : NULL;
	case OPT_CONFIG:
		return replace(&opt->config, value) ? "no memory" : NULL;
	case OPT_KEY_FILE:
		return replace(&opt->key_file, value) ? "no memory" : NULL;
	}
	return "unknown option";
}

static int on_option(int val, const char *value, int remote);

static struct spank_option options[] = {
	{(char *)"hvd", NULL, (char *)"Start the ranks as a Horovod job: rendezvous, interfaces, layout.", 0, OPT_HVD,
	 on_option},
	{(char *)"no-hvd", NULL, (char *)"Undo an --hvd given to sbatch or salloc.", 0, OPT_NO_HVD, on_option},
	{(char *)"hvd-nics", (char *)"LIST", (char *)"Use these network interfaces only (default: find them).", 1,
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

static int on_option(int val, const char *value, int remote)
{
	const char *wrong;

	/* The step daemon gets the options too; srun has checked them, and the task asks the driver. */
	if (remote)
		return 0;
	wrong = set(&hvd_plugin.opt, (enum opt_id)val, value);
	if (!wrong)
		return 0;
	for (size_t i = 0; i < N_OPTIONS; i++)
		if (options[i].val == val)
			return complain(options[i].name + strlen("hvd-"), value, wrong);
	return -1;
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
				wrong = set(&pl->site.defaults, site_keys[i].id, value);
	}
	if (wrong) {
		hvd_err_set(err, HVD_E_USAGE, "plugstack argument \"%s\": %s", arg, wrong);
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
