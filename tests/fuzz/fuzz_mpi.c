/* SPDX-License-Identifier: Apache-2.0 */
/* What an MPI tells a shim (lines: hosts, rank, size, local rank, local size), what mpirun answers, and arguments that
 * a user wrote as one word. */
#include "agent/taskinfo.h"
#include "fuzz.h"
#include "launcher/start/mpi.h"

static void place(const char *hosts)
{
	struct hvd_taskinfo info;

	if (hvd_taskinfo_mpi(hosts, &info, NULL) != 0) {
		must(info.ranks == NULL);
		return;
	}
	must(info.rank < info.size && info.node < info.nodes && info.local_rank < info.local_size);
	must(info.ranks[info.local_rank] == info.rank && info.name[0]);
	hvd_taskinfo_free(&info);
}

/* What was split, joined again, is split into the same. */
static void words(const char *text)
{
	struct hvd_strv once = {0}, twice = {0};
	char *line;

	if (hvd_shell_split(text, &once) == 0 && once.n) {
		line = hvd_shell_join(once.v);
		must(hvd_shell_split(line, &twice) == 0 && twice.n == once.n);
		for (size_t i = 0; i < once.n; i++)
			must(strcmp(once.v[i], twice.v[i]) == 0);
		free(line);
	}
	hvd_strv_free(&once);
	hvd_strv_free(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
					    "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
	char *text = fuzz_text(data, size), *p = text, *hosts;
	int mpi;

	mpi = hvd_mpi_from_version(text);
	must(mpi == -1 || hvd_mpi_name((enum hvd_mpi)mpi) != NULL);
	words(text);
	hosts = strsep(&p, "\n");
	for (int i = 0; i < 4; i++) {
		char *line = strsep(&p, "\n");

		if (line)
			setenv(names[i], line, 1);
		else
			unsetenv(names[i]);
	}
	place(hosts);
	free(text);
	return 0;
}
