/* SPDX-License-Identifier: Apache-2.0 */
/* metrics_token.h - the secret of whoever may read the metrics (--metrics-token-file). */
#ifndef HVD_METRICS_TOKEN_H
#define HVD_METRICS_TOKEN_H

#include "lib/base/err.h"

/* Read it from a file that nobody else can read: a line of 16 to 1024 characters of visible ASCII. The caller frees it;
 * NULL with err set (HVD_E_USAGE). */
char *hvd_metrics_token_read(const char *path, struct hvd_err *err);

#endif
