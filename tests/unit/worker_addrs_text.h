/* SPDX-License-Identifier: Apache-2.0 */
/* worker_addrs_text.h - what an elastic worker of Horovod PUTs: its addresses, as hvd_worker_addrs_parse() reads them. */
#ifndef HVD_WORKER_ADDRS_TEXT_H
#define HVD_WORKER_ADDRS_TEXT_H

#include "lib/base/base64.h"
#include "lib/base/xalloc.h"
#include "lib/frameworks/pickle.h"
#include "lib/frameworks/worker_addrs.h"

#include <stdlib.h>
#include <string.h>

/* Addresses of one interface must follow each other. The caller frees the text. */
static inline char *worker_addrs_text(const struct hvd_worker_addrs *addrs)
{
	const size_t room = 128 + addrs->n * (HVD_WORKER_IFACE_MAX + HVD_ADDR_TEXT + 16);
	struct hvd_pickler p = {.bytes = hvd_xcalloc(room, 1), .room = room};
	char address[HVD_ADDR_TEXT], *text;

	hvd_pickler_begin(&p);
	hvd_pickler_op(&p, HVD_OP_EMPTY_DICT);
	for (size_t i = 0; i < addrs->n; i++) {
		const struct hvd_worker_addr *a = &addrs->v[i];

		if (i == 0 || strcmp(a->iface, a[-1].iface) != 0) {
			hvd_pickler_str(&p, a->iface);
			hvd_pickler_op(&p, HVD_OP_EMPTY_LIST);
		}
		hvd_pickler_str(&p, hvd_addr_text(&a->addr, address));
		hvd_pickler_int(&p, a->port);
		hvd_pickler_op(&p, HVD_OP_TUPLE2);
		hvd_pickler_op(&p, HVD_OP_APPEND);
		if (i + 1 == addrs->n || strcmp(a->iface, a[1].iface) != 0)
			hvd_pickler_op(&p, HVD_OP_SETITEM);
	}
	hvd_pickler_op(&p, HVD_OP_SHORT_BINBYTES);
	hvd_pickler_op(&p, HVD_KEY_LEN);
	for (size_t i = 0; i < HVD_KEY_LEN; i++)
		hvd_pickler_op(&p, addrs->key.b[i]);
	hvd_pickler_op(&p, HVD_OP_TUPLE2);
	hvd_pickler_op(&p, HVD_OP_STOP);
	text = hvd_xcalloc(HVD_BASE64_LENGTH(p.n) + 1, 1);
	hvd_base64_encode(p.bytes, p.n, text);
	explicit_bzero(p.bytes, p.n);
	free(p.bytes);
	return text;
}

#endif
