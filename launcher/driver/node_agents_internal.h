/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node_agents_internal.h - what the files of the node agents share: node_agents.c knows who has come and lets hosts in,
 * agent_commands.c tells them what to do.
 */
#ifndef HVD_NODE_AGENTS_INTERNAL_H
#define HVD_NODE_AGENTS_INTERNAL_H

#include "node_agents.h"

#include "clients.h"
#include "lib/job/this_host.h"
#include "rendezvous_service.h"

struct hvd_node_agents {
	struct event_base *base;
	const struct hvd_driver_opts *opts;
	struct hvd_session *session;
	const struct hvd_node_agents_ops *ops;
	void *arg;
	const struct hvd_log *log;

	struct hvd_this_host self;
	struct hvd_clients *clients;
	struct event *timer;
	struct hvd_node_table table;
	struct hvd_rv_service service;
	struct hvd_plan plan;     /* its layout: that of ranks to be started */
	struct hvd_layout layout; /* of this generation */
	enum {
		HVD_AGENTS_GATHERING,
		HVD_AGENTS_PROBING,
		HVD_AGENTS_OPEN,
		HVD_AGENTS_OVER
	} stage;
	bool ended; /* hvd_node_agents_end() */
};

#endif
