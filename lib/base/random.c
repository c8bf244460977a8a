/* SPDX-License-Identifier: Apache-2.0 */
#include "random.h"

#include <errno.h>
#include <sys/random.h>
#include <sys/types.h>

int hvd_random(void *buf, size_t len, struct hvd_err *err)
{
	unsigned char *p = buf;

	while (len > 0) {
		ssize_t n = getrandom(p, len, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return hvd_err_sys(err, "cannot get random bytes from the kernel");
		p += n;
		len -= (size_t)n;
	}
	return 0;
}
