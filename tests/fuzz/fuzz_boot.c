/* SPDX-License-Identifier: Apache-2.0 */
/* The boot text, which any user can put into an environment: what is taken can be written again, and says the same. */
#include "fuzz.h"
#include "lib/protocol/boot.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size), again[HVD_BOOT_MAX];
	struct hvd_boot boot, back;

	if (hvd_boot_parse(text, &boot, NULL) == 0) {
		if (!boot.port || !boot.n_addrs || boot.n_addrs > HVD_BOOT_MAX_ADDRS || !boot.id[0] ||
		    boot.ports > HVD_BOOT_MAX_PORTS || boot.store_ports > boot.ports ||
		    boot.rank_ports > HVD_BOOT_MAX_PORTS || boot.role_ports > HVD_MAX_ROLE_PORTS ||
		    boot.relays > HVD_BOOT_MAX_RELAYS || boot.worlds < 1 || boot.worlds > HVD_MAX_WORLDS ||
		    strlen(boot.session) != HVD_SESSION_LEN || !(boot.timeout >= 0))
			abort();
		if (hvd_boot_format(&boot, again, NULL) != 0 || hvd_boot_parse(again, &back, NULL) != 0)
			abort();
		if (strcmp(boot.session, back.session) != 0 || strcmp(boot.id, back.id) != 0 ||
		    boot.ports != back.ports || boot.rank_ports != back.rank_ports ||
		    boot.role_ports != back.role_ports || boot.port != back.port || boot.relays != back.relays ||
		    boot.store_ports != back.store_ports || boot.n_addrs != back.n_addrs ||
		    boot.verbose != back.verbose || boot.worlds != back.worlds)
			abort();
		for (unsigned i = 0; i < boot.n_addrs; i++)
			if (!hvd_addr_equal(&boot.addrs[i], &back.addrs[i]))
				abort();
	}
	free(text);
	return 0;
}
