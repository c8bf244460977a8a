/* SPDX-License-Identifier: Apache-2.0 */
#include "nofile.h"

#include <sys/resource.h>

unsigned long hvd_raise_nofile(void)
{
	struct rlimit rl;
	unsigned long before;

	if (getrlimit(RLIMIT_NOFILE, &rl) != 0)
		return 0;
	before = rl.rlim_cur;
	if (rl.rlim_cur < rl.rlim_max) {
		rl.rlim_cur = rl.rlim_max;
		setrlimit(RLIMIT_NOFILE, &rl);
	}
	return before;
}

unsigned long hvd_nofile(void)
{
	struct rlimit rl;

	return getrlimit(RLIMIT_NOFILE, &rl) == 0 ? rl.rlim_cur : 1024;
}
