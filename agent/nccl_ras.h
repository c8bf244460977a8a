/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl_ras.h - asks NCCL what it knows of the communicators of a job: a client of its RAS (NCCL's src/ras/client.cc), which
 * each process that uses NCCL 2.24 or newer serves on its host, at NCCL_RAS_ADDR. The launch sets that variable
 * (lib/frameworks/emit.c) unless the user has.
 *
 * Any process of the job answers for all of it. The functions block: they are for a process of its own.
 */
#ifndef HVD_NCCL_RAS_H
#define HVD_NCCL_RAS_H

#include "lib/base/deadline.h"
#include "lib/base/err.h"
#include "lib/net/addr.h"

#include <jansson.h>
#include <stdbool.h>

/* Read the value of NCCL_RAS_ADDR, as "127.0.0.1:28028" or "localhost:28028". -1: it is none of this host's loopback, where
 * nobody is asked. Untrusted input is fine. */
int hvd_nccl_ras_addr(const char *text, struct hvd_addr *addr, in_port_t *port);

/* Ask, and if `twice` once more after a pause, to see whether operations begin meanwhile, if there is time for that.
 * Returns the summary of hvd_nccl_comms(), a new reference. With an NCCL from before 2.28.7, which writes text for people
 * only, it is {"text":TEXT}, with the beginning of that. NULL with err set: there is no answer. */
json_t *hvd_nccl_ras_ask(const struct hvd_addr *addr, in_port_t port, bool twice, hvd_time deadline,
			 struct hvd_err *err);

#endif
