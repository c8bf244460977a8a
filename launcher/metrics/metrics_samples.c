/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics_samples.h"

#include "lib/base/printable.h"

/* Bytes of a label's value before it is escaped. */
#define VALUE_SIZE 256
#define NAME_SIZE  32
_Static_assert(2 * VALUE_SIZE + NAME_SIZE + 4 < HVD_METRICS_LABEL, "a label fits");

/* A label's value: a backslash, a quote or a newline in it is escaped; what is not UTF-8 was before. */
const char *hvd_metrics_label(const char *name, const char *value, char text[HVD_METRICS_LABEL])
{
	char clean[VALUE_SIZE];
	size_t at = (size_t)snprintf(text, HVD_METRICS_LABEL, "%.*s=\"", NAME_SIZE, name);

	hvd_printable(value ? value : "", clean, sizeof(clean));
	for (const char *s = clean; *s; s++) {
		if (*s == '\\' || *s == '"' || *s == '\n')
			text[at++] = '\\';
		text[at++] = *s == '\n' ? 'n' : *s;
	}
	text[at++] = '"';
	text[at] = '\0';
	return text;
}

static const char *suffix(enum hvd_metrics_kind type)
{
	static const char *const suffixes[] = {
		[HVD_METRICS_GAUGE] = "", [HVD_METRICS_COUNTER] = "_total", [HVD_METRICS_INFO] = "_info"};

	return suffixes[type];
}

static void head(struct hvd_metrics_out *out, const struct hvd_metrics_family *family)
{
	const bool open = out->form == HVD_METRICS_OPENMETRICS;
	const char *end = open ? "" : suffix(family->kind);
	const char *type = family->kind == HVD_METRICS_COUNTER        ? "counter"
			   : family->kind == HVD_METRICS_INFO && open ? "info"
								      : "gauge";

	out->family = family;
	fprintf(out->file, "# TYPE %s%s %s\n", family->name, end, type);
	if (open && family->unit)
		fprintf(out->file, "# UNIT %s %s\n", family->name, family->unit);
	fprintf(out->file, "# HELP %s%s %s\n", family->name, end, family->help);
}

void hvd_metrics_sample_text(struct hvd_metrics_out *out, const struct hvd_metrics_family *family, const char *labels,
			     const char *value)
{
	const char *const parts[] = {family->name,
				     suffix(family->kind),
				     "{",
				     out->launch,
				     labels ? "," : "",
				     labels ? labels : "",
				     "} ",
				     value,
				     "\n"};

	if (out->family != family)
		head(out, family);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		fputs_unlocked(parts[i], out->file);
}

void hvd_metrics_sample(struct hvd_metrics_out *out, const struct hvd_metrics_family *family, const char *labels,
			double value)
{
	char text[32];

	snprintf(text, sizeof(text), "%.15g", value);
	hvd_metrics_sample_text(out, family, labels, text);
}
