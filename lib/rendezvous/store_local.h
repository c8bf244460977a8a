/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_local.h - the store (store_api.h) at the root: all values are here, and operations are carried out at once.
 */
#ifndef HVD_RENDEZVOUS_STORE_LOCAL_H
#define HVD_RENDEZVOUS_STORE_LOCAL_H

#include "store_api.h"

struct hvd_rv;
struct hvd_store_local;

struct hvd_store_local *hvd_store_local_create(struct hvd_rv *rv);
void hvd_store_local_destroy(struct hvd_store_local *local); /* NULL is fine */
/* Set how many ranks there are, which helps to assign clients to epochs; 0: not known. */
void hvd_store_local_ranks(struct hvd_store_local *local, size_t ranks);

/* For store_api.c, as the functions there. */
bool hvd_store_local_submit(struct hvd_store_local *local, const struct hvd_store_op *op, struct hvd_store_result *now,
			    struct hvd_store_call *call);
void hvd_store_local_abandon(struct hvd_store_call *call);
enum hvd_cache hvd_store_local_know(const struct hvd_store_local *local, const struct hvd_store_scope_id *scope);
void hvd_store_local_leave(struct hvd_store_local *local, struct hvd_store_client *client);
struct hvd_rv_scope *hvd_store_local_epoch(const struct hvd_store_local *local, uint32_t number);
void hvd_store_local_renew(struct hvd_store_local *local);

#endif
