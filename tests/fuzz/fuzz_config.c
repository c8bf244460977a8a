/* SPDX-License-Identifier: Apache-2.0 */
/* hvd.conf and --config-file: any text. */
#include "fuzz.h"
#include "launcher/options/options.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size ? size : 1);
	struct hvd_options o;
	struct hvd_err err = {0};

	if (!text)
		return 0;
	memcpy(text, data, size);
	hvd_options_init(&o);
	o.as_horovodrun = size > 0 && (data[size - 1] & 1);
	if (hvd_config_parse(&o, HVD_FROM_CONFIG, text, size, "fuzz", &err) != 0 && (err.code == HVD_OK || !err.msg[0]))
		abort();
	hvd_options_free(&o);
	free(text);
	return 0;
}
