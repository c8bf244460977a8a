/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_options.c - any command line, environment and configuration.
 *
 * The input is words, each ended by a NUL. The first is the name that the
 * program is called by; words that begin with a '\1' are variables of the
 * environment, those that begin with a '\2' settings, KEY=VALUE.
 */
#include "fuzz.h"
#include "launcher/options/options.h"

#define MOST 256

/* Is `what` the end of argv? And no word of srun's made up but from letters? */
static void check_command(const struct hvd_options *o, int argc, char **argv)
{
	must(o->command.n <= (size_t)argc);
	for (size_t i = 0; i < o->command.n; i++)
		must(strcmp(o->command.v[i], argv[(size_t)argc - o->command.n + i]) == 0);
	must(!o->het_colon || (o->het_colon < o->command.n && strcmp(o->command.v[o->het_colon], ":") == 0));
	for (size_t i = 0; i < o->unknown.n; i++)
		must(strncmp(o->unknown.v[i], "--", 2) == 0);
	must(o->unknown.n <= o->srun_args.n);
}

static void configure(struct hvd_options *o, char *setting)
{
	char *eq = strchr(setting, '=');
	struct hvd_err err;

	if (!eq)
		return;
	*eq = '\0';
	hvd_options_config(o, HVD_FROM_CONFIG, setting, eq + 1, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size), *argv[MOST + 1], *envp[MOST + 1], *settings[MOST];
	int argc = 0, n_env = 0, n_set = 0;
	struct hvd_strv env = {0};
	struct hvd_options o;
	struct hvd_err err;
	int rc;

	for (char *w = text; w < text + size && argc < MOST && n_env < MOST && n_set < MOST; w += strlen(w) + 1) {
		if (*w == '\1')
			envp[n_env++] = w + 1;
		else if (*w == '\2')
			settings[n_set++] = w + 1;
		else
			argv[argc++] = w;
	}
	argv[argc] = NULL;
	envp[n_env] = NULL;

	hvd_options_init(&o);
	rc = hvd_options_parse(&o, argc, argv, &err);
	if (!rc)
		check_command(&o, argc, argv);
	for (int i = 0; i < n_set; i++)
		configure(&o, settings[i]);
	if (!rc && !hvd_options_env(&o, envp, &err) && !hvd_options_check(&o, &err))
		must(o.action != HVD_RUN || o.command.n || o.selftest);
	hvd_options_tunables(&o, &env);
	hvd_strv_free(&env);
	hvd_options_free(&o);
	free(text);
	return 0;
}
