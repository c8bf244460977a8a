/* SPDX-License-Identifier: Apache-2.0 */
/*
 * horovod_build.h - a line at launch where the Horovod of the user's Python lacks the controller that its ranks are to
 * use.
 *
 * Horovod is not imported, which takes seconds: the file system is searched for the package where the Python that the
 * command names looks for it, and its libraries for the names of Horovod's classes. Where a command begins with
 * something else than Python, or the ranks have another file system, nothing is known, and nothing is said.
 */
#ifndef HVD_HOROVOD_BUILD_H
#define HVD_HOROVOD_BUILD_H

#include "launcher/start/backend.h"

/* Warn if all of Horovod's libraries that are found lack what this launch needs. */
void hvd_horovod_build_check(const struct hvd_launch *launch);

#endif
