/* SPDX-License-Identifier: Apache-2.0 */
/*
 * silence.h - notices soon that a host has gone: by silence and witnesses.
 *
 * The kernels of a host and of this one exchange something every second (hvd_conn_watch_host()). If nothing came from a
 * host for HVD_SILENT_MS, two other hosts are asked to try it. A host that one of them reaches is only busy, or the
 * network between it and this host is disturbed: it keeps its time (HVD_CONN_WATCH_SECONDS). A host that none of them
 * reaches is lost. Where all hosts are silent, it is this host that is cut off, and nobody can be asked.
 *
 * Messages: to a witness {"t":"try", "n":HOST, "p":PORT, "a":[ADDR,…], "ms":N}, with the host's addresses in the networks
 * of the plan, of which it tries the first HVD_HOST_TRY_ADDRS; from it {"t":"tried", "n":HOST, "answered":B}. A witness
 * tries one host at a time, and drops further orders.
 */
#ifndef HVD_SILENCE_H
#define HVD_SILENCE_H

#include "clients.h"
#include "planner.h"

#define HVD_SILENT_MS 2000

struct hvd_silence;

/* Watch the admitted hosts. The rest must outlive the result. */
struct hvd_silence *hvd_silence_watch(struct event_base *base, const struct hvd_host_table *table,
				      const struct hvd_network_plan *plan, const struct hvd_log *log);
void hvd_silence_destroy(struct hvd_silence *silence); /* NULL is fine */

/* A message "tried" of this host's agent. */
void hvd_silence_message(struct hvd_silence *silence, uint32_t witness, const json_t *msg);

#endif
