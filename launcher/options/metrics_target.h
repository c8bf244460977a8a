/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics_target.h - the value of --metrics: where metrics are served, or the file that they are written to.
 */
#ifndef HVD_METRICS_TARGET_H
#define HVD_METRICS_TARGET_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <sys/socket.h>

struct hvd_metrics_target {
	const char *file;             /* points into the value; NULL: an address */
	struct sockaddr_storage addr; /* with the port; 0 = one that is free */
	bool loopback;                /* only processes of this host reach it */
};

/* Read PORT, ADDRESS:PORT, [ADDRESS]:PORT or file:PATH. Without an address it is 127.0.0.1, as "localhost" is. -1 with err
 * set; *target is then undefined. */
int hvd_metrics_target_parse(const char *value, struct hvd_metrics_target *target, struct hvd_err *err);

#endif
