/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of options against each other and the programs they stand for; texts made from them. */
#include "options_lines.h"

TEST(test_tables)
{
	const struct hvd_opt *a, *b;
	struct hvd_options o;
	char *text;

	hvd_options_init(&o);
	for (size_t i = 0; (a = hvd_opt_row(i)); i++) {
		assert_non_null(a->help);
		assert_int_not_equal(a->help[strlen(a->help) - 1], '.');
		assert_int_equal(a->arg != NULL, a->arity != HVD_ARG_NONE);
		assert_int_equal(a->choices != NULL, a->type == HVD_OPT_ENUM || a->type == HVD_OPT_WORDS);
		assert_true(!a->more || a->more[strlen(a->more) - 1] != '.');
		assert_true(a->at || a->type == HVD_OPT_PASS);
		assert_true(!a->pass || a->family == HVD_FAMILY_SRUN);
		/* A tunable is the text of a field. */
		assert_true(!a->tunable || a->at);
		if (a->needs)
			assert_non_null(hvd_opt_find(HVD_FAMILY_HOROVOD, a->needs));
		if (a->def) {
			struct hvd_err err;

			assert_int_equal(hvd_opt_store(&o, a, "default", a->def, &err), 0);
		}
		for (size_t j = i + 1; (b = hvd_opt_row(j)); j++) {
			if (a->family == b->family) {
				assert_string_not_equal(a->name, b->name);
				assert_true(!a->letter || a->letter != b->letter);
			}
			assert_true(!a->config || !b->config || strcmp(a->config, b->config) != 0);
			assert_true(!a->tunable || !b->tunable || strcmp(a->tunable, b->tunable) != 0);
			/* Spellings of one value are those of one owner. */
			assert_true(!a->at || a->at != b->at || a->whose == b->whose);
			/* A default belongs to one spelling. */
			assert_true(!a->def || !b->def || a->at != b->at);
		}
	}
	o.help_topic = HVD_HELP_ALL;
	text = hvd_options_help(&o, 80);
	assert_null(strstr(text, "(null)")); /* each group has a title */
	free(text);
	hvd_options_free(&o);
}

/* Every spelling that two families share is known here, so that a new one does not go unnoticed. */
TEST(test_collisions)
{
	static const char names[] = "|mpi|help|usage|version|verbose|";
	static const char letters[] = "nHpivh";
	const struct hvd_opt *a, *b;

	for (size_t i = 0; (a = hvd_opt_row(i)); i++) {
		for (size_t j = i + 1; (b = hvd_opt_row(j)); j++) {
			char name[80];

			if (a->family == b->family)
				continue;
			snprintf(name, sizeof(name), "|%s|", a->name);
			if (strcmp(a->name, b->name) == 0 && !strstr(names, name))
				fail_msg("--%s is in two families", a->name);
			if (a->letter && a->letter == b->letter && !strchr(letters, a->letter))
				fail_msg("-%c is in two families", a->letter);
		}
	}
}

/* The lines of `srun --help` that name an option: "  -n, --ntasks=ntasks   text", "      --nice[=value]  text". */
static void check_help_line(const char *line)
{
	const struct hvd_opt *o;
	const char *p = line + strspn(line, " ");
	char letter = '\0', name[64];
	size_t n;

	if (p - line < 2 || p - line > 8 || *p != '-')
		return;
	if (p[1] != '-') {
		letter = p[1];
		p += 2 + strspn(p + 2, ", ");
	}
	assert_int_equal(strncmp(p, "--", 2), 0);
	n = strspn(p + 2, "abcdefghijklmnopqrstuvwxyz0123456789-_");
	snprintf(name, sizeof(name), "%.*s", (int)n, p + 2);
	o = hvd_opt_find(HVD_FAMILY_SRUN, name);
	if (!o || o->family != HVD_FAMILY_SRUN)
		fail_msg("srun has --%s", name);
	if (letter && o->letter != letter)
		fail_msg("srun has -%c, --%s", letter, name);
	if (p[2 + n] == '=' && o->arity != HVD_ARG_REQUIRED && o->arity != HVD_ARG_OPTIONAL)
		fail_msg("srun's --%s takes a value", name);
	if (p[2 + n] == '[' && o->arity != HVD_ARG_OPTIONAL)
		fail_msg("srun's --%s takes a value that may be left out", name);
}

/* srun needs a configuration to say anything; this one names no host that matters. */
TEST(test_installed_srun)
{
	char conf[] = "/tmp/hvd-test-options-XXXXXX", line[512], cmd[128];
	int fd = mkstemp(conf), seen = 0;
	FILE *f;

	assert_true(fd >= 0);
	assert_true(dprintf(fd, "ClusterName=test\nSlurmctldHost=localhost\nTaskPlugin=task/affinity\n") > 0);
	close(fd);
	snprintf(cmd, sizeof(cmd), "SLURM_CONF=%s srun --help 2>/dev/null", conf);
	f = popen(cmd, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		check_help_line(line);
		seen++;
	}
	pclose(f);
	unlink(conf);
	if (!seen)
		skip();
	assert_true(seen > 100);
}

TEST(test_horovodrun_names)
{
	static const char all[] =
		"version num-proc check-build disable-cache start-timeout network-interfaces "
		"network-interface output-filename verbose config-file ssh-port ssh-identity-file "
		"fusion-threshold-mb cycle-time-ms cache-capacity hierarchical-allreduce "
		"no-hierarchical-allreduce hierarchical-allgather no-hierarchical-allgather "
		"torus-allreduce no-torus-allreduce autotune no-autotune autotune-log-file "
		"autotune-warmup-samples autotune-steps-per-sample autotune-bayes-opt-max-samples "
		"autotune-gaussian-process-noise min-np min-num-proc max-np max-num-proc "
		"slots-per-host elastic-timeout reset-limit blacklist-cooldown-range timeline-filename "
		"timeline-mark-cycles no-timeline-mark-cycles no-stall-check stall-check "
		"stall-check-warning-time-seconds stall-check-shutdown-time-seconds "
		"mpi-threads-disable no-mpi-threads-disable mpi-args tcp binding-args num-nccl-streams "
		"thread-affinity gloo-timeout-seconds log-level log-with-timestamp "
		"log-without-timestamp prefix-output-with-timestamp log-hide-timestamp "
		"no-log-hide-timestamp hosts hostfile host-discovery-script gloo mpi jsrun help";
	struct hvd_strv names = {0};

	split(all, &names);
	for (size_t i = 0; i < names.n; i++) {
		const struct hvd_opt *o = hvd_opt_find(HVD_FAMILY_HOROVOD, names.v[i]);

		if (!o || o->family != HVD_FAMILY_HOROVOD)
			fail_msg("horovodrun has --%s", names.v[i]);
	}
	hvd_strv_free(&names);
}

/* The text of --help, which must fit into 80 columns. The caller frees it. */
static char *help_of(const char *line)
{
	struct hvd_options o;
	char *text;

	ok(&o, line);
	assert_int_equal(o.action, HVD_SHOW_HELP);
	text = hvd_options_help(&o, 80);
	for (const char *s = text; *s; s += strcspn(s, "\n") + 1)
		if (strcspn(s, "\n") > 80)
			fail_msg("wider than 80 columns: %.100s", s);
	hvd_options_free(&o);
	return text;
}

TEST(test_help)
{
	static const struct {
		const char *line, *has, *lacks;
	} topics[] = {
		{"hvdrun -lh --bogus x", "\n      --hosts=HOST:SLOTS", "--ntasks="},
		{"hvdrun --help", "\n      --requeue-on=LIST", "--hvd-"},
		{"hvdrun --help=all", "\n  -n, --ntasks=NUMBER", "--hvd-spares"},
		{"hvdrun --help=ALL", "default 30; $HVD_START_TIMEOUT", "help-man"},
		{"hvdrun --help=srun", "\n  -H, --hold", "--launcher"},
		{"hvdrun --help=horovod", "\n      --hosts=HOST:SLOTS", "--launcher"},
		{"hvdrun --help=tunables", "\n      --autotune ", "--hosts"},
		/* As horovodrun its letters are its own. */
		{"horovodrun --help", "\n  -H, --hosts=HOST:SLOTS", "--launcher"},
		{"horovodrun -h", "\n      --autotune ", "--mail-type"},
		{"horovodrun --help=all", "\n      --launcher=NAME", "help-man"},
	};
	int lines = 0;
	char *text;

	for (size_t i = 0; i < sizeof(topics) / sizeof(topics[0]); i++) {
		text = help_of(topics[i].line);
		if (!strstr(text, topics[i].has))
			fail_msg("%s does not show %s", topics[i].line, topics[i].has);
		if (strstr(text, topics[i].lacks))
			fail_msg("%s shows %s", topics[i].line, topics[i].lacks);
		free(text);
	}
	text = help_of("hvdrun --help");
	for (const char *s = text; (s = strchr(s, '\n')); s++)
		lines++;
	assert_in_range(lines, 50, 76);
	free(text);
	refused("hvdrun --help=me", "\"me\" is not known", "all|srun|horovod|tunables");
}

TEST(test_actions)
{
	struct hvd_options o;
	char *text;

	ok(&o, "hvdrun a");
	text = hvd_options_man(&o);
	assert_non_null(strstr(text, ".SS \"srun: tasks\""));
	assert_non_null(strstr(text, "\\fB\\-\\-network\\-interfaces\\fR=\\fILIST\\fR"));
	free(text);
	text = hvd_options_completion(&o);
	assert_non_null(strstr(text, "\n-np\trequired\tNUMBER\t\n"));
	assert_non_null(strstr(text, "\n--launcher\trequired\tNAME\tauto|srun|"));
	free(text);
	hvd_options_free(&o);
	ok(&o, "hvdrun -V x");
	assert_int_equal(o.action, HVD_SHOW_VERSION);
	hvd_options_free(&o);
}

RUN_TESTS()
