/* SPDX-License-Identifier: Apache-2.0 */
/* metrics_uses.h - what ranks and hosts use, as samples of each of them and of all together (metrics_text.h). */
#ifndef HVD_METRICS_USES_H
#define HVD_METRICS_USES_H

#include "metrics_samples.h"

void hvd_metrics_put_uses(struct hvd_metrics_out *out, const struct hvd_figures *figures);

#endif
