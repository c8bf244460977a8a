/* SPDX-License-Identifier: Apache-2.0 */
/* The file of --multi-prog: what it says of ranks agrees, whatever it holds. */
#include "fuzz.h"
#include "lib/process/multi_prog.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	struct hvd_multi_prog *mp = hvd_multi_prog_parse(text, size, "file", NULL, NULL);
	int ranks = mp ? hvd_multi_prog_ranks(mp) : 0;
	bool all = true;

	for (int r = 0; mp && r < ranks && r < 100; r++) {
		struct hvd_strv argv = {0};
		bool some = hvd_multi_prog_command(mp, r, &argv) == 0;

		must(some == (argv.n > 0 && argv.n <= 127));
		all = all && some;
		hvd_strv_free(&argv);
	}
	if (mp && ranks <= 100)
		must((hvd_multi_prog_check(mp, ranks, NULL) == 0) == all);
	for (size_t i = 0; mp && i < 100; i++) {
		struct hvd_strv argv = {0};

		must((hvd_multi_prog_line(mp, i, &argv) > 0) == (argv.n > 0));
		hvd_strv_free(&argv);
	}
	hvd_multi_prog_destroy(mp);
	free(text);
	return 0;
}
