/* SPDX-License-Identifier: Apache-2.0 */
/* What comes from srun --label and from ssh, in pieces: nothing of it is looked for in vain, and a byte that goes in
 * comes out once at most. */
#include "fuzz.h"
#include "launcher/start/output_mux.h"

#include <fcntl.h>
#include <unistd.h>

static void relay(enum hvd_output_mux_form form, const uint8_t *data, size_t size)
{
	struct event_base *base = event_base_new();
	struct hvd_output_mux *relay;
	int out[2], from;
	char buf[16384];
	size_t step = size ? data[0] % 97 + 1 : 1, back = 0;
	ssize_t n;

	must(base && pipe2(out, O_CLOEXEC | O_NONBLOCK) == 0);
	relay = hvd_output_mux_create(base, out[1], form, NULL);
	must(relay != NULL);
	from = hvd_output_mux_open(relay, NULL);
	must(from >= 0);
	for (size_t at = 0; at < size; at += step) {
		must(write(from, data + at, step < size - at ? step : size - at) >= 0);
		event_base_loop(base, EVLOOP_NONBLOCK);
	}
	close(from);
	hvd_output_mux_finish(relay);
	while ((n = read(out[0], buf, sizeof(buf))) > 0)
		back += (size_t)n;
	must(form == HVD_OUTPUT_MUX_LINES ? back == size : back <= size);
	close(out[0]);
	close(out[1]);
	event_base_free(base);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	relay(HVD_OUTPUT_MUX_LINES, data, size);
	relay(HVD_OUTPUT_MUX_TASKS, data, size);
	return 0;
}
