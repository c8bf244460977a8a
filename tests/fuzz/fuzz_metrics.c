/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The value of --metrics, and names of hosts as labels of the metrics: whatever a name is, each line of the text is one
 * sample or one of a head, whose labels are escaped as Prometheus wants it.
 */
#include "fuzz.h"
#include "launcher/metrics/metrics_text.h"
#include "launcher/options/metrics_target.h"

static void check_target(const char *value)
{
	struct hvd_metrics_target target;
	struct hvd_err err = {0};

	if (hvd_metrics_target_parse(value, &target, &err) != 0)
		must(err.code == HVD_E_USAGE && err.msg[0]);
	else if (target.file)
		must(target.file == value + 5 && *target.file);
	else
		must(target.addr.ss_family == AF_INET || target.addr.ss_family == AF_INET6);
}

/* NAME="VALUE": the end of it. */
static const char *label_end(const char *s)
{
	while ((*s >= 'a' && *s <= 'z') || *s == '_')
		s++;
	must(s[0] == '=' && s[1] == '"');
	for (s += 2; *s != '"'; s++) {
		must(*s && *s != '\n');
		if (*s == '\\') {
			s++;
			must(*s == '\\' || *s == '"' || *s == 'n');
		}
	}
	return s + 1;
}

static const char *sample_end(const char *s)
{
	must(strncmp(s, "hvd_", 4) == 0);
	s = strchr(s, '{');
	must(s != NULL);
	do
		s = label_end(s + 1);
	while (*s == ',');
	must(s[0] == '}' && s[1] == ' ');
	s += 2;
	must(*s != '\n');
	return s + strspn(s, "0123456789.e+-");
}

static void check_text(const char *name, enum hvd_metrics_form form)
{
	const struct hvd_metrics_rank rank = {.host = name, .slow = true};
	const struct hvd_metrics_host host = {.name = name, .ranks = 1};
	const struct hvd_figures figures = {.launch = name,
					    .version = "1",
					    .backend = name,
					    .uses = &rank,
					    .n_uses = 1,
					    .hosts = &host,
					    .n_hosts = 1};
	size_t len;
	char *text = hvd_metrics_text(&figures, form, &len);

	must(strlen(text) == len && len > 0 && text[len - 1] == '\n');
	for (const char *s = text; *s; s++) {
		s = *s == '#' ? strchr(s, '\n') : sample_end(s);
		must(s && *s == '\n');
	}
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);

	check_target(text);
	check_text(text, HVD_METRICS_TEXT);
	check_text(text, HVD_METRICS_OPENMETRICS);
	free(text);
	return 0;
}
