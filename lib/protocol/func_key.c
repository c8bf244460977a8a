/* SPDX-License-Identifier: Apache-2.0 */
#include "func_key.h"

#include "lib/base/digits.h"

#include <string.h>

#define PURPOSE "run-func"

struct hvd_key hvd_func_key(const struct hvd_key *session_key)
{
	return hvd_key_derive(session_key, PURPOSE, NULL, 0);
}

static void mac_of(const struct hvd_key *key, const char *kind, const char *number, const void *data, size_t n,
		   unsigned char mac[HVD_MAC_LEN])
{
	struct hvd_piece pieces[] = {{kind, strlen(kind)}, {number, strlen(number)}, {data, n}};

	hvd_hmac(key, pieces, 3, mac);
}

void hvd_func_sign(const struct hvd_key *key, const char *kind, const char *number, const void *data, size_t n,
		   char mac[HVD_FUNC_MAC_LEN])
{
	char text[HVD_FUNC_MAC_LEN + 1];
	unsigned char raw[HVD_MAC_LEN];

	mac_of(key, kind, number, data, n, raw);
	hvd_hex(raw, sizeof(raw), text);
	memcpy(mac, text, HVD_FUNC_MAC_LEN);
}

bool hvd_func_signed(const struct hvd_key *key, const char *kind, const char *number, const void *value, size_t n)
{
	unsigned char claimed[HVD_MAC_LEN], mac[HVD_MAC_LEN];
	char text[HVD_FUNC_MAC_LEN + 1];

	if (n < HVD_FUNC_MAC_LEN)
		return false;
	memcpy(text, value, HVD_FUNC_MAC_LEN);
	text[HVD_FUNC_MAC_LEN] = '\0';
	if (hvd_unhex(text, claimed, sizeof(claimed)) != 0)
		return false;
	mac_of(key, kind, number, (const char *)value + HVD_FUNC_MAC_LEN, n - HVD_FUNC_MAC_LEN, mac);
	return hvd_mac_equal(claimed, mac);
}
