/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_addrs.h"

#include "lib/base/base64.h"
#include "lib/base/xalloc.h"
#include "pickle.h"

#include <stdlib.h>
#include <string.h>

static int bad_addrs(struct hvd_err *err, const char *what)
{
	return hvd_err_set(err, HVD_E_PROTO, "a worker's addresses: %s", what);
}

static int read_addr(const struct hvd_pickle_value *iface, const struct hvd_pickle_value *v,
		     struct hvd_worker_addrs *out, struct hvd_err *err)
{
	struct hvd_worker_addr *a = &out->v[out->n];
	char text[HVD_ADDR_TEXT];

	if (out->n == HVD_WORKER_MAX_ADDRS)
		return hvd_err_set(err, HVD_E_LIMIT, "a worker with more than %d addresses", HVD_WORKER_MAX_ADDRS);
	if (v->kind != HVD_PICKLE_TUPLE || v->n != 2 || v->items[0]->kind != HVD_PICKLE_STR ||
	    v->items[1]->kind != HVD_PICKLE_INT)
		return bad_addrs(err, "an entry is not (address, port)");
	if (v->items[0]->len >= sizeof(text) || memchr(v->items[0]->text, 0, v->items[0]->len))
		return bad_addrs(err, "an entry has an invalid address");
	memcpy(text, v->items[0]->text, v->items[0]->len);
	text[v->items[0]->len] = '\0';
	if (hvd_addr_parse(text, &a->addr) != 0)
		return bad_addrs(err, "an entry has an invalid address");
	if (v->items[1]->number < 1 || v->items[1]->number > 65535)
		return bad_addrs(err, "an entry has no valid port");
	a->port = (in_port_t)v->items[1]->number;
	if (iface->len >= sizeof(a->iface) || memchr(iface->text, 0, iface->len))
		return bad_addrs(err, "an interface has no name, or too long a one");
	memcpy(a->iface, iface->text, iface->len);
	a->iface[iface->len] = '\0';
	out->n++;
	return 0;
}

/* ({iface: [(addr, port), …], …}, key) */
static int read_addrs(const struct hvd_pickle_value *v, struct hvd_worker_addrs *out, struct hvd_err *err)
{
	const struct hvd_pickle_value *dict, *key;

	if (v->kind != HVD_PICKLE_TUPLE || v->n != 2)
		return bad_addrs(err, "they are not a pair");
	dict = v->items[0];
	key = v->items[1];
	if (dict->kind != HVD_PICKLE_DICT)
		return bad_addrs(err, "the first element is not a dict");
	if (key->kind != HVD_PICKLE_BYTES || key->len != HVD_KEY_LEN)
		return bad_addrs(err, "the second element is not a key of 32 bytes");
	for (size_t i = 0; i < dict->n; i += 2) {
		const struct hvd_pickle_value *iface = dict->items[i], *list = dict->items[i + 1];

		if (iface->kind != HVD_PICKLE_STR || list->kind != HVD_PICKLE_LIST)
			return bad_addrs(err, "an interface has no list");
		for (size_t j = 0; j < list->n; j++)
			if (read_addr(iface, list->items[j], out, err) < 0)
				return -1;
	}
	if (!out->n)
		return bad_addrs(err, "there are none");
	memcpy(out->key.b, key->text, HVD_KEY_LEN);
	return 0;
}

/* Move loopback addresses to the end, so that they are tried last. The order stays otherwise. */
static void loopback_last(struct hvd_worker_addrs *a)
{
	struct hvd_worker_addr *sorted = hvd_xcalloc(a->n, sizeof(*sorted));
	size_t n = 0;

	for (int loopback = 0; loopback < 2; loopback++)
		for (size_t i = 0; i < a->n; i++)
			if (hvd_addr_loopback(&a->v[i].addr) == loopback)
				sorted[n++] = a->v[i];
	free(a->v);
	a->v = sorted;
}

/* Decode base64. The caller wipes and frees the *n bytes. */
static unsigned char *unbase64(const void *text, size_t len, size_t *n, struct hvd_err *err)
{
	unsigned char *bytes;

	if (len > HVD_BASE64_LENGTH(HVD_PICKLE_MAX)) {
		hvd_err_set(err, HVD_E_LIMIT, "a worker's addresses: %zu bytes are too many", len);
		return NULL;
	}
	bytes = hvd_base64_decode(text, len, n);
	if (!bytes)
		bad_addrs(err, "they are not base64");
	return bytes;
}

int hvd_worker_addrs_parse(const void *text, size_t len, struct hvd_worker_addrs *out, struct hvd_err *err)
{
	struct hvd_pickle *pickle;
	unsigned char *bytes;
	size_t n;
	int rc;

	memset(out, 0, sizeof(*out));
	bytes = unbase64(text, len, &n, err);
	if (!bytes)
		return -1;
	pickle = hvd_pickle_read(bytes, n, err);
	out->v = hvd_xcalloc(HVD_WORKER_MAX_ADDRS, sizeof(*out->v));
	rc = pickle ? read_addrs(hvd_pickle_root(pickle), out, err) : -1;
	hvd_pickle_free(pickle);
	explicit_bzero(bytes, n);
	free(bytes);
	if (rc < 0) {
		hvd_worker_addrs_clear(out);
		return -1;
	}
	loopback_last(out);
	return 0;
}

void hvd_worker_addrs_clear(struct hvd_worker_addrs *addrs)
{
	if (!addrs)
		return;
	free(addrs->v);
	explicit_bzero(addrs, sizeof(*addrs));
}
