/* SPDX-License-Identifier: Apache-2.0 */
#include "join.h"

#include "alloc.h"
#include "lib/base/cleanup.h"
#include "lib/base/digits.h"
#include "lib/base/size.h"
#include "lib/base/xalloc.h"
#include "lib/protocol/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void hvd_join_address_format(const struct hvd_boot *boot, char text[HVD_JOIN_ADDRESS_MAX])
{
	char addr[HVD_ADDR_TEXT];
	size_t at = 0;

	_Static_assert(HVD_BOOT_MAX_ADDRS * (HVD_ADDR_TEXT + 1) + 8 + HVD_SESSION_LEN < HVD_JOIN_ADDRESS_MAX,
		       "no room");
	for (unsigned i = 0; i < boot->n_addrs; i++)
		at += (size_t)snprintf(text + at, HVD_JOIN_ADDRESS_MAX - at, "%s%s", i ? "," : "",
				       hvd_addr_text(&boot->addrs[i], addr));
	snprintf(text + at, HVD_JOIN_ADDRESS_MAX - at, ":%u/%s", boot->port, boot->session);
}

int hvd_join_address_parse(const char *text, struct hvd_boot *boot, struct hvd_err *err)
{
	unsigned char id[HVD_SESSION_LEN / 2];
	char copy[HVD_JOIN_ADDRESS_MAX];
	char *slash = NULL, *colon = NULL;

	if (strlen(text) < sizeof(copy)) {
		snprintf(copy, sizeof(copy), "%s", text);
		slash = strrchr(copy, '/');
	}
	if (slash) {
		*slash = '\0';
		colon = strrchr(copy, ':');
	}
	boot->n_addrs = 0;
	if (colon && hvd_unhex(slash + 1, id, sizeof(id)) == 0) {
		int64_t port = hvd_digits(colon + 1, strlen(colon + 1), 65535);

		*colon = '\0';
		memcpy(boot->session, slash + 1, HVD_SESSION_LEN + 1);
		boot->port = port > 0 ? (in_port_t)port : 0;
		if (boot->port && hvd_boot_parse_addrs(copy, boot) == 0)
			return 0;
	}
	hvd_err_set(err, HVD_E_USAGE, "'%.200s' is not an address of a launch, ADDRESS[,ADDRESS…]:PORT/SESSION", text);
	return hvd_err_hint(err, "hvdrun --launcher=join prints it when it starts to wait for agents");
}

json_t *hvd_join_offer(const struct hvd_join_offer *offer)
{
	json_t *msg = json_pack("{s:s, s:s, s:s, s:i}", "t", "offer", "host", offer->host, "machine", offer->machine,
				"slots", offer->slots);

	if (offer->index >= 0)
		json_object_set_new(msg, "index", json_integer(offer->index));
	return msg;
}

static int check_name(const char *host, struct hvd_err *err)
{
	HVD_CLEANUP(hvd_alloc_clear) struct hvd_alloc one = {0};

	return hvd_alloc_add(&one, host, 1, err);
}

int hvd_join_offer_read(const json_t *msg, struct hvd_join_offer *offer, struct hvd_err *err)
{
	const char *host, *machine;
	int64_t slots, index = -1;

	memset(offer, 0, sizeof(*offer));
	if (hvd_get_str(msg, "host", sizeof(offer->host) - 1, &host, err) != 0 ||
	    hvd_get_str(msg, "machine", HVD_MACHINE_LEN, &machine, err) != 0 ||
	    hvd_get_int(msg, "slots", INT64_MIN, INT64_MAX, &slots, err) != 0 ||
	    (json_object_get(msg, "index") && hvd_get_int(msg, "index", 0, HVD_JOIN_INDEX_MAX, &index, err) != 0) ||
	    check_name(host, err) != 0)
		return -1;
	if (slots < 1 || slots > HVD_MAX_HOST_RANKS) {
		hvd_err_set(err, HVD_E_LIMIT, "%lld slots are not possible: a host can have 1 to %d", (long long)slots,
			    HVD_MAX_HOST_RANKS);
		return hvd_err_hint(err, "offer fewer: hvd-agent connect ADDRESS --slots=N");
	}
	snprintf(offer->host, sizeof(offer->host), "%s", host);
	snprintf(offer->machine, sizeof(offer->machine), "%s", machine);
	offer->slots = (int)slots;
	offer->index = (int)index;
	return 0;
}

json_t *hvd_join_refusal(const struct hvd_err *why)
{
	return json_pack("{s:s, s:s, s:s}", "t", "failed", "why", why->msg, "hint", why->hint);
}

void hvd_join_refusal_read(const json_t *msg, struct hvd_err *why)
{
	const char *text, *hint;

	if (hvd_get_str(msg, "why", sizeof(why->msg) - 1, &text, NULL) != 0 ||
	    hvd_get_str(msg, "hint", sizeof(why->hint) - 1, &hint, NULL) != 0) {
		text = "its job could not start";
		hint = "hvdrun has printed the reason";
	}
	hvd_err_set(why, HVD_E_FAILED, "the launcher declines this agent: %s", text);
	if (*hint)
		hvd_err_hint(why, "%s", hint);
}
