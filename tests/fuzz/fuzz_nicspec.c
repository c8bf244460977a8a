/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of interfaces: what is taken selects in a way that holds together. */
#include "fuzz.h"
#include "lib/base/strv.h"
#include "lib/host/user_ifname.h"
#include "lib/net/nicspec.h"

/* `list` is taken apart. */
static struct hvd_strv entries(char *list)
{
	struct hvd_strv v = {0};

	for (char *save = NULL, *e = strtok_r(list, ",", &save); e; e = strtok_r(NULL, ",", &save))
		hvd_strv_add(&v, e);
	return v;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const names[] = {"eth0", "ib0", "ib01", "docker0", "lo"};
	char *text = fuzz_text(data, size);
	struct hvd_nicspec spec;
	struct hvd_addr v4, v6;
	struct hvd_strv list;
	const char *name;
	int rc;

	hvd_addr_parse("10.77.0.1", &v4);
	hvd_addr_parse("fd77::1", &v6);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		hvd_user_ifname_selects(text, HVD_NCCL_IFNAME, names[i]);
		hvd_user_ifname_selects(text, HVD_GLOO_IFNAME, names[i]);
	}
	rc = hvd_nicspec_check("x", text, NULL);
	list = entries(text);
	if (hvd_nicspec_parse(&spec, list.v, NULL) == 0) {
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
			bool any = hvd_nicspec_wants(&spec, names[i], NULL);

			/* What is wanted by its name is so with each address, unless a subnet is excluded. */
			for (size_t k = 0; k < spec.n; k++)
				any = any && !(spec.v[k].excluded && spec.v[k].kind == HVD_NIC_SUBNET);
			must(!any ||
			     (hvd_nicspec_wants(&spec, names[i], &v4) && hvd_nicspec_wants(&spec, names[i], &v6)));
		}
		for (size_t i = 0; (name = hvd_nicspec_name(&spec, i)); i++)
			must(i < spec.n && *name);
		must(spec.n || hvd_nicspec_wants(&spec, "any", NULL));
		hvd_nicspec_ipv6(&spec);
	} else {
		must(!spec.v && spec.n == 0 && rc != 0);
	}
	hvd_nicspec_clear(&spec);
	hvd_strv_free(&list);
	free(text);
	return 0;
}
