/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics_samples.h - families of metrics and their samples as lines of text. Knows nothing of what they mean.
 */
#ifndef HVD_METRICS_SAMPLES_H
#define HVD_METRICS_SAMPLES_H

#include "metrics_text.h"

#include <stdio.h>

/* A label, or that of a host and that of a rank behind it. */
#define HVD_METRICS_LABEL 608

enum hvd_metrics_kind {
	HVD_METRICS_GAUGE,
	HVD_METRICS_COUNTER,
	HVD_METRICS_INFO
};

struct hvd_metrics_family {
	const char *name; /* without the suffix of a counter's or the info's samples */
	enum hvd_metrics_kind kind;
	const char *unit; /* NULL = none; else the name ends in it */
	const char *help;
};

struct hvd_metrics_out {
	FILE *file;
	enum hvd_metrics_form form;
	char launch[HVD_METRICS_LABEL];          /* the label that all samples have */
	const struct hvd_metrics_family *family; /* whose head was written last */
};

/* NAME="VALUE" in `text`, which is returned. Of a long value only the begin is taken; NULL is an empty one. */
const char *hvd_metrics_label(const char *name, const char *value, char text[HVD_METRICS_LABEL]);

/* Write a sample, behind the head of its family unless that was written last: the samples of a family follow each other.
 * `labels` follow that of the launch; NULL = none. */
void hvd_metrics_sample_text(struct hvd_metrics_out *out, const struct hvd_metrics_family *family, const char *labels,
			     const char *value);
void hvd_metrics_sample(struct hvd_metrics_out *out, const struct hvd_metrics_family *family, const char *labels,
			double value);

#endif
