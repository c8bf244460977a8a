/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a pickle, as a frame signed by the right key, and as what a worker PUTs; all values that come of it are
 * looked at, to a depth.
 */
#include "fuzz.h"
#include "lib/frameworks/pickle.h"
#include "lib/frameworks/worker_addrs.h"
#include "lib/frameworks/worker_message.h"
#include "tests/unit/worker_addrs_text.h"

#include <nettle/hmac.h>

static size_t look(const struct hvd_pickle_value *v, int depth)
{
	size_t sum = 1;

	if (v->kind == HVD_PICKLE_STR || v->kind == HVD_PICKLE_BYTES)
		for (size_t i = 0; i < v->len; i++)
			sum += (unsigned char)v->text[i];
	must(v->kind != HVD_PICKLE_CLASS || v->n == 2);
	must(v->kind != HVD_PICKLE_DICT || v->n % 2 == 0);
	must(v->kind != HVD_PICKLE_OBJECT || v->n == 2 || v->n == 3);
	/* A few of each: values may be shared, and a circle has no end. */
	for (size_t i = 0; depth < 4 && i < v->n && i < 8; i++)
		sum += look(v->items[i], depth + 1);
	return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct hvd_key key = {{1, 2, 3}};
	struct hvd_pickle *pickle = hvd_pickle_read(data, size, NULL);
	struct hvd_worker_addrs addrs, back;
	struct hmac_sha256_ctx ctx;
	struct hvd_message msg;
	uint8_t *frame;
	char *text;

	if (pickle)
		must(look(hvd_pickle_root(pickle), 0) > 0);
	hvd_pickle_free(pickle);

	frame = malloc(HVD_MESSAGE_HEAD + size);
	must(frame != NULL);
	hmac_sha256_set_key(&ctx, HVD_KEY_LEN, key.b);
	hmac_sha256_update(&ctx, size, data);
	hmac_sha256_digest(&ctx, HVD_MAC_LEN, frame);
	for (size_t i = 0; i < 4; i++)
		frame[HVD_MAC_LEN + i] = (uint8_t)(size >> (8 * i));
	memcpy(frame + HVD_MESSAGE_HEAD, data, size);
	hvd_message_read(&key, frame, HVD_MESSAGE_HEAD + size, &msg, NULL);
	free(frame);

	if (hvd_worker_addrs_parse(data, size, &addrs, NULL) == 0) {
		text = worker_addrs_text(&addrs);
		must(hvd_worker_addrs_parse(text, strlen(text), &back, NULL) == 0 && back.n == addrs.n);
		free(text);
		hvd_worker_addrs_clear(&back);
		hvd_worker_addrs_clear(&addrs);
	}
	return 0;
}
