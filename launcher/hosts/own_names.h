/* SPDX-License-Identifier: Apache-2.0 */
/*
 * own_names.h - warns of hosts whose own names lead to an address that other hosts do not reach, if Horovod runs there.
 *
 * Horovod connects its ranks over HOROVOD_GLOO_IFACE. But the ranks of a process set, which init() makes too, listen at
 * the address of the host's own name. Debian's installer lets that lead to 127.0.1.1, and then init() fails after
 * seconds or minutes, with Gloo's words for it. The agents report the address when ranks start:
 *
 *   agent  {"t":"own-name", "addr":ADDR}
 *
 * Whether the ranks are Horovod's shows only when the first of them has stored a value.
 */
#ifndef HVD_DRIVER_OWN_NAMES_H
#define HVD_DRIVER_OWN_NAMES_H

#include "lib/base/log.h"
#include "planner.h"

/* Zeroed: nothing is known. */
struct hvd_own_names {
	bool horovod; /* ranks of Horovod are there */
};

/* The host has sent that message. */
void hvd_own_names_message(struct hvd_own_names *names, struct hvd_host_table *table,
			   const struct hvd_network_plan *plan, uint32_t host, const json_t *msg,
			   const struct hvd_log *log);
/* A rank of Horovod has come. */
void hvd_own_names_horovod(struct hvd_own_names *names, struct hvd_host_table *table, const struct hvd_log *log);

#endif
