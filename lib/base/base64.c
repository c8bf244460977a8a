/* SPDX-License-Identifier: Apache-2.0 */
#include "base64.h"

#include "xalloc.h"

#include <nettle/base64.h>
#include <stdlib.h>
#include <string.h>

void hvd_base64_encode(const void *bytes, size_t n, void *text)
{
	base64_encode_raw(text, n, bytes);
}

unsigned char *hvd_base64_decode(const void *text, size_t len, size_t *n)
{
	size_t room = BASE64_DECODE_LENGTH(len);
	unsigned char *bytes = hvd_xcalloc(room + 1, 1);
	struct base64_decode_ctx ctx;

	*n = room;
	base64_decode_init(&ctx);
	if (base64_decode_update(&ctx, n, bytes, len, text) && base64_decode_final(&ctx))
		return bytes;
	explicit_bzero(bytes, room);
	free(bytes);
	return NULL;
}
