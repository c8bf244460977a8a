/* SPDX-License-Identifier: Apache-2.0 */
/*
 * random.h - random bytes from the kernel, good enough for keys.
 */
#ifndef HVD_RANDOM_H
#define HVD_RANDOM_H

#include "err.h"

#include <stddef.h>

/* Fill buf with len random bytes. After an error the bytes of buf are undefined. */
int hvd_random(void *buf, size_t len, struct hvd_err *err);

#endif
