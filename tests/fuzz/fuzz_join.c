/* SPDX-License-Identifier: Apache-2.0 */
/* What agents that come by themselves say to the launcher, and it to them: what is taken keeps to the limits, and comes
 * back the same from the wire. */
#include "fuzz.h"
#include "lib/base/size.h"
#include "lib/host/join.h"

static void offer(const json_t *msg)
{
	struct hvd_join_offer o, back;
	json_t *again;

	if (hvd_join_offer_read(msg, &o, NULL) != 0)
		return;
	must(o.host[0] && o.host[0] != '-' && strlen(o.host) < sizeof(o.host) && strlen(o.machine) <= HVD_MACHINE_LEN);
	must(o.slots >= 1 && o.slots <= HVD_MAX_HOST_RANKS && o.index >= -1 && o.index <= HVD_JOIN_INDEX_MAX);
	again = hvd_join_offer(&o);
	must(hvd_join_offer_read(again, &back, NULL) == 0 && memcmp(&o, &back, sizeof(o)) == 0);
	json_decref(again);
}

static void address(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size), again[HVD_JOIN_ADDRESS_MAX], third[HVD_JOIN_ADDRESS_MAX];
	struct hvd_boot boot = {0};

	if (hvd_join_address_parse(text, &boot, NULL) == 0) {
		hvd_join_address_format(&boot, again);
		must(hvd_join_address_parse(again, &boot, NULL) == 0);
		hvd_join_address_format(&boot, third);
		must(strcmp(again, third) == 0);
	}
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *msg = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);
	struct hvd_err why;

	offer(msg);
	hvd_join_refusal_read(msg, &why);
	must(why.code == HVD_E_FAILED);
	json_decref(msg);
	address(data, size);
	return 0;
}
