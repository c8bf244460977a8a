/* SPDX-License-Identifier: Apache-2.0 */
/* The text for Prometheus: escaping, both forms, and how many series there are. tests/unit/metrics.bats has it read by
 * programs of Prometheus. */
#include "launcher/metrics/metrics_text.h"

#include "tests/unit/unit.h"

static struct hvd_figures some_figures(void)
{
	return (struct hvd_figures){.launch = "login:42",
				    .version = "1.2",
				    .backend = "srun",
				    .job = 7,
				    .state = HVD_METRICS_RUNNING,
				    .began = 1700000000.25,
				    .start = 1.5,
				    .generation = 2,
				    .ranks = 4,
				    .generations = 2,
				    .restarts = 1,
				    .ends = {[HVD_METRICS_END_OOM] = 3},
				    .in_stage = {[HVD_STAGE_HERE] = 2},
				    .phases = {.training = 10},
				    .goodput = 0.75};
}

static char *text_of(const struct hvd_figures *figures, enum hvd_metrics_form form)
{
	size_t len;
	char *text = hvd_metrics_text(figures, form, &len);

	assert_int_equal(strlen(text), len);
	return text;
}

/* How many lines begin with this. */
static size_t n_lines(const char *text, const char *begin)
{
	size_t n = 0;

	for (const char *s = text; s && *s; s = strchr(s, '\n'), s = s ? s + 1 : NULL)
		n += strncmp(s, begin, strlen(begin)) == 0;
	return n;
}

TEST(a_launch_in_the_older_form)
{
	const struct hvd_figures figures = some_figures();
	char *text = text_of(&figures, HVD_METRICS_TEXT);

	assert_in(text, "# TYPE hvd_launch_info gauge\n");
	assert_in(text, "\nhvd_launch_info{launch=\"login:42\",version=\"1.2\",backend=\"srun\",job=\"7\"} 1\n");
	assert_in(text, "\nhvd_launch_state{launch=\"login:42\",state=\"running\"} 1\n");
	assert_in(text, "\nhvd_launch_state{launch=\"login:42\",state=\"ended\"} 0\n");
	assert_in(text, "\nhvd_launch_start_time_seconds{launch=\"login:42\"} 1700000000.25\n");
	assert_in(text, "# TYPE hvd_restarts_total counter\n");
	assert_in(text, "\nhvd_restarts_total{launch=\"login:42\"} 1\n");
	assert_in(text, "\nhvd_rank_ends_total{launch=\"login:42\",how=\"oom\"} 3\n");
	assert_in(text, "\nhvd_launch_hosts{launch=\"login:42\",stage=\"here\"} 2\n");
	assert_in(text, "\nhvd_launch_phase_seconds{launch=\"login:42\",phase=\"training\"} 10\n");
	assert_in(text, "\nhvd_goodput_ratio{launch=\"login:42\"} 0.75\n");
	assert_null(strstr(text, "# UNIT"));
	assert_null(strstr(text, "# EOF"));
	assert_null(strstr(text, "exit_status")); /* it has not ended */
	free(text);
}

TEST(a_launch_in_openmetrics)
{
	struct hvd_figures figures = some_figures();
	char *text;

	figures.state = HVD_METRICS_ENDED;
	figures.ended = 1700000100;
	figures.status = 3;
	text = text_of(&figures, HVD_METRICS_OPENMETRICS);
	assert_in(text, "# TYPE hvd_launch info\n");
	assert_in(text, "\nhvd_launch_info{");
	assert_in(text, "# TYPE hvd_restarts counter\n");
	assert_in(text, "\nhvd_restarts_total{");
	assert_in(text, "# TYPE hvd_goodput_ratio gauge\n# UNIT hvd_goodput_ratio ratio\n# HELP hvd_goodput_ratio ");
	assert_in(text, "\nhvd_launch_exit_status{launch=\"login:42\"} 3\n");
	assert_string_equal(text + strlen(text) - 7, "\n# EOF\n");
	free(text);
}

TEST(labels_are_escaped_and_cut)
{
	struct hvd_figures figures = some_figures();
	char backend[2000], *text;

	memset(backend, '"', sizeof(backend) - 1);
	backend[sizeof(backend) - 1] = '\0';
	figures.launch = "a\"b\\c\nd\001\xff{}";
	figures.backend = backend;
	figures.job = 0;
	text = text_of(&figures, HVD_METRICS_OPENMETRICS);
	/* Bytes that are no text become \xNN, whose backslash is escaped. */
	assert_in(text, "{launch=\"a\\\"b\\\\c\\nd\\\\x01\\\\xff{}\",version");
	assert_in(text, "\\\"\",job=\"\"} 1\n");
	assert_true(strlen(strstr(text, "backend=")) > 500);
	assert_int_equal(n_lines(text, "hvd_launch_info{"), 1);
	free(text);
}

#define FAMILIES 9 /* of what a rank uses */

static char *text_of_ranks(size_t n, size_t n_hosts, bool slow)
{
	struct hvd_metrics_rank *ranks = calloc(n, sizeof(*ranks));
	struct hvd_metrics_host *hosts = calloc(n_hosts, sizeof(*hosts));
	struct hvd_figures figures = some_figures();
	char *text;

	assert_true(ranks && hosts);
	for (size_t i = 0; i < n; i++)
		ranks[i] =
			(struct hvd_metrics_rank){.role = i == 2 ? "rollout/1" : NULL,
						  .host = "n1",
						  .slow = slow,
						  .uses = {.rank = (uint32_t)i, .cpu = (int64_t)i * 1000, .gpu = -1}};
	for (size_t i = 0; i < n_hosts; i++)
		hosts[i] = (struct hvd_metrics_host){.name = "n1", .ranks = 2, .uses = {.awaited = 250, .gpu = -1}};
	figures.uses = ranks;
	figures.n_uses = n;
	figures.hosts = hosts;
	figures.n_hosts = n_hosts;
	text = text_of(&figures, HVD_METRICS_TEXT);
	free(ranks);
	free(hosts);
	return text;
}

TEST(what_ranks_and_hosts_use)
{
	char *text = text_of_ranks(5, 1, false);

	assert_in(text, "\nhvd_rank_cpu_ratio{launch=\"login:42\",host=\"n1\",rank=\"2\",role=\"rollout/1\"} 2\n");
	assert_in(text, "\nhvd_rank_cpu_ratio{launch=\"login:42\",host=\"n1\",rank=\"3\"} 3\n");
	assert_in(text, "\nhvd_host_awaited_ratio{launch=\"login:42\",host=\"n1\"} 0.250\n");
	assert_in(text, "\nhvd_host_ranks{launch=\"login:42\",host=\"n1\"} 2\n");
	assert_in(text, "\nhvd_ranks_cpu_ratio{launch=\"login:42\",at=\"min\"} 0\n");
	assert_in(text, "\nhvd_ranks_cpu_ratio{launch=\"login:42\",at=\"median\"} 2\n");
	assert_in(text, "\nhvd_ranks_cpu_ratio{launch=\"login:42\",at=\"p95\"} 3\n");
	assert_in(text, "\nhvd_ranks_cpu_ratio{launch=\"login:42\",at=\"max\"} 4\n");
	assert_in(text, "\nhvd_rank_slow{launch=\"login:42\",host=\"n1\",rank=\"0\"} 0\n");
	assert_in(text, "\nhvd_launch_ranks_sampled{launch=\"login:42\"} 5\n");
	assert_null(strstr(text, "gpu_ratio")); /* not known */
	free(text);
}

TEST(the_number_of_series_is_bounded)
{
	char *text = text_of_ranks(HVD_METRICS_RANKS, HVD_METRICS_HOSTS, false);

	assert_int_equal(n_lines(text, "hvd_rank_memory_bytes{"), HVD_METRICS_RANKS);
	assert_int_equal(n_lines(text, "hvd_host_memory_bytes{"), HVD_METRICS_HOSTS);
	assert_in_range(n_lines(text, "hvd_"), 0, (FAMILIES + 1) * (HVD_METRICS_RANKS + HVD_METRICS_HOSTS) + 200);
	free(text);
	text = text_of_ranks(HVD_METRICS_RANKS + 1, HVD_METRICS_HOSTS + 1, true);
	assert_int_equal(n_lines(text, "hvd_rank_memory_bytes{"), 0);
	assert_int_equal(n_lines(text, "hvd_host_"), 0);
	assert_int_equal(n_lines(text, "hvd_ranks_memory_bytes{"), 4);
	assert_int_equal(n_lines(text, "hvd_rank_slow{"), HVD_METRICS_SLOW);
	assert_in(text, "\nhvd_launch_ranks_slow{launch=\"login:42\"} 1025\n");
	assert_in_range(n_lines(text, "hvd_"), 0, 200);
	free(text);
}

/* Whatever the order of the figures, and however many are equal. */
TEST(the_spread_of_figures)
{
	static const struct {
		const char *name;
		size_t percent;
	} at[] = {{"min", 0}, {"median", 50}, {"p95", 95}, {"max", 100}};
	struct hvd_metrics_rank ranks[200] = {0};
	struct hvd_figures figures = some_figures();
	char line[64], *text;

	figures.uses = ranks;
	for (size_t n = 1; n <= 200; n++) {
		for (size_t i = 0; i < n; i++) /* 0, 0, 1, 1, … in some order: 211 is a prime */
			ranks[i].uses.cpu = (int64_t)((i * 211 + 7) % n / 2 * 1000);
		figures.n_uses = n;
		text = text_of(&figures, HVD_METRICS_TEXT);
		for (size_t i = 0; i < 4; i++) {
			snprintf(line, sizeof(line), "ranks_cpu_ratio{launch=\"login:42\",at=\"%s\"} %zu\n", at[i].name,
				 (n - 1) * at[i].percent / 100 / 2);
			assert_in(text, line);
		}
		free(text);
	}
}

/* Each family has its lines together, and its head in front of them. */
TEST(families_are_not_interleaved)
{
	char *text = text_of_ranks(3, 2, true), *line, *rest = NULL, family[128] = "";
	size_t heads = 0;

	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		if (strncmp(line, "# TYPE ", 7) == 0) {
			snprintf(family, sizeof(family), "%.*s", (int)strcspn(line + 7, " "), line + 7);
			heads++;
		} else if (*line != '#') {
			assert_int_equal(strcspn(line, "{"), strlen(family));
			assert_memory_equal(line, family, strlen(family));
		}
	}
	assert_in_range(heads, 40, 60);
	free(text);
}

RUN_TESTS()
