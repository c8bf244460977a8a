/* SPDX-License-Identifier: Apache-2.0 */
/*
 * socket_owner.h - says whose sockets on this host are connected to the relay of another host (lib/protocol/owner_question.h).
 */
#ifndef HVD_SOCKET_OWNER_H
#define HVD_SOCKET_OWNER_H

#include <jansson.h>

struct hvd_socket_owner;

struct hvd_socket_owner *hvd_socket_owner_create(void);        /* never NULL */
void hvd_socket_owner_destroy(struct hvd_socket_owner *owner); /* NULL is fine */

/* The answer to a question from the driver, a new reference. NULL: it was no question. Asks the kernel once for each
 * port, of which a question has few. */
json_t *hvd_socket_owner_answer(struct hvd_socket_owner *owner, const json_t *msg);

#endif
