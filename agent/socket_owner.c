/* SPDX-License-Identifier: Apache-2.0 */
/*
 * socket_owner.c - says whose sockets on this host are connected to the relay of another host: the answer to "whose"
 * (lib/protocol/owner_question.h). It asks the kernel once for each port, of which a question has few.
 */
#include "agent.h"
#include "lib/net/sock_diag.h"
#include "lib/protocol/owner_question.h"

#include <unistd.h>

struct socket_owner {
	struct hvd_agent *agent;
	bool open; /* from the first question on */
	int netlink_fd;
	uint32_t questions;
};

static int64_t look_up(struct socket_owner *owner, const struct sockaddr_storage *client,
		       const struct sockaddr_storage *relay)
{
	uint64_t acked = 0;
	uid_t uid;
	int rc = hvd_peer_uid_diag(owner->netlink_fd, ++owner->questions, client, relay, &uid, &acked);

	if (rc < 0)
		rc = hvd_peer_uid_proc(client, relay, &uid);
	if (rc != 0)
		return rc > 0 ? HVD_OWNER_NONE : HVD_OWNER_UNKNOWN;
	return uid == geteuid() ? (int64_t)acked : HVD_OWNER_OTHER;
}

static void on_whose(void *arg, const json_t *msg)
{
	struct socket_owner *owner = arg;
	struct sockaddr_storage client, relay;
	struct hvd_owner_question question;
	struct hvd_owner_answer answer;

	if (hvd_owner_question_read(msg, &question, NULL) != 0)
		return;
	if (!owner->open)
		owner->netlink_fd = hvd_peer_uid_open();
	owner->open = true;
	answer = (struct hvd_owner_answer){
		.id = question.id, .asker = question.asker, .world = question.world, .n = question.n};
	hvd_addr_to_sockaddr(&question.to, question.port, &relay);
	for (size_t i = 0; i < question.n; i++) {
		hvd_addr_to_sockaddr(&question.from, question.ports[i], &client);
		answer.owners[i] = look_up(owner, &client, &relay);
	}
	hvd_driver_client_send(owner->agent->driver, hvd_owner_answer_to_json(&answer));
}

static void end(void *arg)
{
	const struct socket_owner *owner = arg;

	if (owner->open && owner->netlink_fd >= 0)
		close(owner->netlink_fd);
}

const struct hvd_feature hvd_socket_owner_feature = {
	.size = sizeof(struct socket_owner),
	.messages = (const struct hvd_agent_message[]){{"whose", on_whose}, {NULL, NULL}},
	.end = end,
};
