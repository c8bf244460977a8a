/* SPDX-License-Identifier: Apache-2.0 */
#include "socket_owner.h"

#include "lib/base/xalloc.h"
#include "lib/protocol/owner_question.h"
#include "lib/rendezvous/peeruid.h"

#include <stdlib.h>
#include <unistd.h>

struct hvd_socket_owner {
	int netlink_fd;
	uint32_t questions;
};

struct hvd_socket_owner *hvd_socket_owner_create(void)
{
	struct hvd_socket_owner *owner = hvd_xcalloc(1, sizeof(*owner));

	owner->netlink_fd = hvd_peer_uid_open();
	return owner;
}

void hvd_socket_owner_destroy(struct hvd_socket_owner *owner)
{
	if (!owner)
		return;
	if (owner->netlink_fd >= 0)
		close(owner->netlink_fd);
	free(owner);
}

static int64_t look_up(struct hvd_socket_owner *owner, const struct sockaddr_storage *client,
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

json_t *hvd_socket_owner_answer(struct hvd_socket_owner *owner, const json_t *msg)
{
	struct sockaddr_storage client, relay;
	struct hvd_owner_question question;
	struct hvd_owner_answer answer;

	if (hvd_owner_question_read(msg, &question, NULL) != 0)
		return NULL;
	answer = (struct hvd_owner_answer){.id = question.id, .asker = question.asker, .n = question.n};
	hvd_addr_to_sockaddr(&question.to, question.port, &relay);
	for (size_t i = 0; i < question.n; i++) {
		hvd_addr_to_sockaddr(&question.from, question.ports[i], &client);
		answer.owners[i] = look_up(owner, &client, &relay);
	}
	return hvd_owner_answer_to_json(&answer);
}
