/* SPDX-License-Identifier: Apache-2.0 */
/*
 * idle_machine_ops.h - ops of the state machine of elastic jobs (machine.h) for tests without hosts and processes: what
 * concerns these is ignored.
 */
#ifndef HVD_TESTS_IDLE_MACHINE_OPS_H
#define HVD_TESTS_IDLE_MACHINE_OPS_H

#include "launcher/world/machine.h"

static void do_host(uint32_t host, void *arg)
{
	(void)host;
	(void)arg;
}

static void do_nothing(void *arg)
{
	(void)arg;
}

static inline void do_no_generation(bool prepared, void *arg)
{
	(void)prepared;
	(void)arg;
}

static void do_start(const struct hvd_worker *worker, void *arg)
{
	(void)worker;
	(void)arg;
}

static void do_end(const struct hvd_worker *worker, bool at_once, void *arg)
{
	(void)worker;
	(void)at_once;
	(void)arg;
}

#endif
