/* SPDX-License-Identifier: Apache-2.0 */
#include "server.h"

#include <stddef.h>

void hvd_rv_tcpstore_renew(struct hvd_rv *rv)
{
	(void)rv;
}

char *hvd_rv_tcpstore_waits(const struct hvd_rv *rv, size_t max)
{
	(void)rv;
	(void)max;
	return NULL;
}
