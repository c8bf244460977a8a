/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines of mpirun, against the documented grammar of each implementation; what a shim reads under them. */
#include "agent/taskinfo.h"
#include "launcher/start/mpi.h"
#include "lib/frameworks/emit.h"

#include "tests/unit/unit.h"

TEST(knows_versions)
{
	static const struct {
		const char *text;
		int mpi;
	} cases[] = {
		{"mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/\n", HVD_MPI_OPEN},
		{"mpirun (OpenRTE) 3.0.0", HVD_MPI_OPEN},
		{"mpirun.openmpi (Open MPI) 5.0.7\n\nReport bugs to https://www.open-mpi.org/community/help/\n",
		 HVD_MPI_PRRTE},
		{"mpirun (Open MPI) 6.0.0rc2\n", HVD_MPI_PRRTE},
		{"mpirun (Open MPI) 10.0.1\n", HVD_MPI_PRRTE},
		{"mpirun (Open MPI) main", HVD_MPI_OPEN},
		{"mpirun (IBM Spectrum MPI) 10.3.1.02rtm0\n", HVD_MPI_SPECTRUM},
		{"IBM Spectrum MPI, of Open MPI", HVD_MPI_SPECTRUM},
		{"HYDRA build details:\n    Version:                                 4.0.2\n", HVD_MPI_MPICH},
		{"MPICH Version: 3.3", HVD_MPI_MPICH},
		{"Intel(R) MPI Library for Linux* OS, Version 2021.1 Build 20201112 (id: b9c9d2fc5)", HVD_MPI_INTEL},
		{"mvapich2", -1},
		{"", -1},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(hvd_mpi_from_version(cases[i].text), cases[i].mpi);
}

/* A program that answers as `text` says; NULL: none. */
static int detect(const char *script, double seconds, enum hvd_mpi *mpi, struct hvd_err *err)
{
	char dir[] = "/tmp/hvd-mpi-XXXXXX", path[64], *env[2] = {path, NULL}, file[64];
	int rc;

	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "PATH=%s", dir);
	snprintf(file, sizeof(file), "%s/mpirun", dir);
	if (script) {
		FILE *f = fopen(file, "w");

		assert_non_null(f);
		fprintf(f, "#!/bin/sh\n%s\n", script);
		fclose(f);
		assert_int_equal(chmod(file, 0700), 0);
	}
	memset(err, 0, sizeof(*err));
	rc = hvd_mpi_detect("mpirun", env, hvd_deadline_in(seconds), mpi, err);
	unlink(file);
	rmdir(dir);
	return rc;
}

TEST(asks_for_the_version)
{
	struct hvd_err err;
	enum hvd_mpi mpi = HVD_MPI_OPEN;

	assert_int_equal(detect("[ \"$*\" = --version ] && echo 'IBM Spectrum MPI'", 20, &mpi, &err), 0);
	assert_int_equal(mpi, HVD_MPI_SPECTRUM);
	assert_int_equal(detect("echo; echo 'Intel(R) MPI'", 20, &mpi, &err), 0);
	assert_int_equal(mpi, HVD_MPI_INTEL);
	/* More than anybody reads of it. */
	assert_int_equal(
		detect("echo MPICH; i=0; while [ $i -lt 999 ]; do echo 0123456789; i=$((i+1)); done", 20, &mpi, &err),
		0);
	assert_int_equal(mpi, HVD_MPI_MPICH);

	assert_fails(detect(NULL, 20, &mpi, &err), err, "mpirun");
	assert_in(err.hint, "leave --mpi out");
	assert_fails_with(detect("echo MVAPICH 2", 20, &mpi, &err), err, HVD_E_USAGE, "MVAPICH 2");
	assert_fails(detect("echo Open MPI; exit 3", 20, &mpi, &err), err, "exit code 3");
	assert_fails_with(detect("exec /bin/sleep 60 >&-", 0.2, &mpi, &err), err, HVD_E_TIMEOUT, "");
	assert_fails_with(detect("exec /bin/sleep 60", 0.2, &mpi, &err), err, HVD_E_TIMEOUT, "");
}

/* ---- command lines ---- */

struct given {
	struct hvd_alloc hosts;
	struct hvd_strv nics, exports;
	struct hvd_mpi_job job;
};

static struct hvd_mpi_job *give(struct given *g, const char *hosts)
{
	memset(g, 0, sizeof(*g));
	assert_int_equal(hvd_alloc_from_hosts(&g->hosts, hosts, 0, NULL), 0);
	hvd_strv_add(&g->exports, "HOME");
	hvd_strv_add(&g->exports, "PATH");
	g->job = (struct hvd_mpi_job){.hosts = &g->hosts, .nics = &g->nics, .exports = &g->exports};
	return &g->job;
}

static void clear(struct given *g)
{
	hvd_alloc_clear(&g->hosts);
	hvd_strv_free(&g->nics);
	hvd_strv_free(&g->exports);
}

static void line(enum hvd_mpi mpi, struct given *g, const char *want)
{
	struct hvd_strv argv = {0};

	assert_int_equal(hvd_mpi_args(mpi, &g->job, &argv, NULL), 0);
	assert_text(hvd_shell_join(argv.v), want);
	hvd_strv_free(&argv);
}

static void refused(enum hvd_mpi mpi, struct given *g, const char *why)
{
	struct hvd_strv argv = {0};
	struct hvd_err err = {0};

	assert_fails_with(hvd_mpi_args(mpi, &g->job, &argv, &err), err, HVD_E_USAGE, why);
	assert_true(err.hint[0]);
	hvd_strv_free(&argv);
}

#define OPEN_HEAD "--allow-run-as-root --tag-output -np 4 -H a:2,b:2 "
#define OPEN_MCA  "-bind-to none -map-by slot -mca pml ob1 -mca btl ^openib "

#define PRRTE_HEAD(output) "--allow-run-as-root --output " output " -np 4 -H a:2,b:2 "
#define PRRTE_MCA          "--bind-to none --map-by slot --mca pml ob1 --mca btl ^openib "

TEST(open_mpi)
{
	struct given g;

	give(&g, "a:2,b:2");
	line(HVD_MPI_OPEN, &g, OPEN_HEAD OPEN_MCA "-x HOME -x PATH");
	g.job.timestamps = g.job.keep_going = g.job.tcp = true;
	g.job.ssh_port = 2222;
	g.job.ssh_identity = "/k";
	g.job.output_dir = "/out";
	g.job.more_args = "--mca oob_tcp_if_exclude 'docker0,lo' \"\"";
	hvd_strv_add(&g.nics, "ib0");
	hvd_strv_add(&g.nics, "eth0");
	hvd_strv_add(&g.exports, "NCCL_SOCKET_IFNAME");
	line(HVD_MPI_OPEN, &g,
	     OPEN_HEAD OPEN_MCA
	     "-mca plm_rsh_args '-p 2222 -i /k' --timestamp-output -mca orte_abort_on_non_zero_status 0 "
	     "--output-filename /out -mca btl_tcp_if_include ib0,eth0 -x HOME -x PATH -x NCCL_SOCKET_IFNAME "
	     "--mca oob_tcp_if_exclude docker0,lo ''");
	clear(&g);

	give(&g, "a:2,b:2");
	g.job.binding_args = "--bind-to core --map-by slot:PE=2";
	g.job.ssh_identity = "/k";
	line(HVD_MPI_OPEN, &g,
	     OPEN_HEAD "--bind-to core --map-by slot:PE=2 -mca pml ob1 -mca btl ^openib -mca plm_rsh_args '-i /k' "
		       "-x HOME -x PATH");
	g.job.any_host_key = true;
	line(HVD_MPI_OPEN, &g,
	     OPEN_HEAD "--bind-to core --map-by slot:PE=2 -mca pml ob1 -mca btl ^openib -mca plm_rsh_args "
		       "'-oStrictHostKeyChecking=no -i /k' -x HOME -x PATH");
	g.job.binding_args = "--bind-to 'core";
	refused(HVD_MPI_OPEN, &g, "a quote is not closed");
	clear(&g);
}

/* From release 5 on: prterun(1). */
TEST(open_mpi_by_prrte)
{
	struct given g;

	give(&g, "a:2,b:2");
	line(HVD_MPI_PRRTE, &g, PRRTE_HEAD("tag") PRRTE_MCA "-x HOME -x PATH");
	g.job.timestamps = g.job.keep_going = g.job.tcp = true;
	g.job.ssh_port = 2222;
	g.job.ssh_identity = "/k";
	g.job.more_args = "--oversubscribe";
	hvd_strv_add(&g.nics, "ib0");
	hvd_strv_add(&g.nics, "eth0");
	line(HVD_MPI_PRRTE, &g,
	     PRRTE_HEAD("tag,timestamp") PRRTE_MCA
	     "--prtemca plm_ssh_args '-p 2222 -i /k' --runtime-options error-nonzero-status=false "
	     "--mca btl_tcp_if_include ib0,eth0 -x NCCL_SOCKET_IFNAME==ib0,eth0 -x HOME -x PATH "
	     "--oversubscribe");
	/* What is no name no MPI understands; the ranks' shims have it from the plan. */
	hvd_strv_add(&g.nics, "^ib3");
	line(HVD_MPI_PRRTE, &g,
	     PRRTE_HEAD("tag,timestamp") PRRTE_MCA
	     "--prtemca plm_ssh_args '-p 2222 -i /k' --runtime-options error-nonzero-status=false "
	     "-x HOME -x PATH --oversubscribe");
	clear(&g);

	assert_string_equal(hvd_mpi_name(HVD_MPI_PRRTE), "Open MPI");
	assert_false(hvd_mpi_hydra(HVD_MPI_PRRTE));
	assert_false(hvd_mpi_keeps_output(HVD_MPI_PRRTE));
	assert_true(hvd_mpi_keeps_output(HVD_MPI_OPEN));
}

TEST(many_hosts)
{
	struct given g = {0};
	struct hvd_strv argv = {0};
	char *text;

	give(&g, "h0");
	for (int n = 1; n <= 64; n++) {
		char name[8];

		assert_int_equal(hvd_mpi_args(HVD_MPI_OPEN, &g.job, &argv, NULL), 0);
		text = hvd_shell_join(argv.v);
		assert_int_equal(strstr(text, "-mca plm_rsh_no_tree_spawn true") != NULL, n >= 64);
		assert_int_equal(strstr(text, "-mca plm_rsh_num_concurrent 64 ") != NULL, n >= 64);
		free(text);
		hvd_strv_free(&argv);
		assert_int_equal(hvd_mpi_args(HVD_MPI_PRRTE, &g.job, &argv, NULL), 0);
		text = hvd_shell_join(argv.v);
		assert_int_equal(strstr(text, "--prtemca plm_ssh_no_tree_spawn true") != NULL, n >= 64);
		assert_int_equal(strstr(text, "--prtemca plm_ssh_num_concurrent 64 ") != NULL, n >= 64);
		free(text);
		hvd_strv_free(&argv);
		snprintf(name, sizeof(name), "h%d", n);
		assert_int_equal(hvd_alloc_add(&g.hosts, name, 1, NULL), 0);
	}
	clear(&g);
}

TEST(spectrum)
{
	struct given g;

	give(&g, "a:2,b:2");
	line(HVD_MPI_SPECTRUM, &g, OPEN_HEAD "-bind-to socket -map-by socket -rank-by core -x HOME -x PATH");
	g.job.tcp = true;
	line(HVD_MPI_SPECTRUM, &g, OPEN_HEAD "-bind-to socket -map-by socket -rank-by core -tcp -x HOME -x PATH");
	clear(&g);
}

TEST(hydra)
{
	struct given g;

	give(&g, "a:2,b:2");
	line(HVD_MPI_MPICH, &g, "-l -np 4 -ppn 2 -hosts a,b -bind-to none -map-by slot");
	line(HVD_MPI_INTEL, &g, "-l -np 4 -ppn 2 -hosts a,b");
	hvd_strv_add(&g.nics, "ib0");
	g.job.ssh_port = 2222;
	g.job.more_args = "-verbose";
	/* MPICH's takes no arguments for ssh: HYDRA_LAUNCHER_EXTRA_ARGS has them. */
	line(HVD_MPI_MPICH, &g,
	     "-l -np 4 -ppn 2 -hosts a,b -bind-to none -map-by slot -bootstrap ssh -iface ib0 -genv NCCL_SOCKET_IFNAME "
	     "=ib0 -verbose");
	line(HVD_MPI_INTEL, &g,
	     "-l -np 4 -ppn 2 -hosts a,b -bootstrap ssh -bootstrap-exec-args '-p 2222' -iface ib0 -genv "
	     "NCCL_SOCKET_IFNAME =ib0 -verbose");
	g.job.keep_going = true;
	refused(HVD_MPI_INTEL, &g, "--keep-going");
	g.job.keep_going = false;
	g.job.timestamps = true;
	refused(HVD_MPI_MPICH, &g, "--prefix-output-with-timestamp");
	g.job.timestamps = false;
	hvd_strv_add(&g.nics, "eth0");
	refused(HVD_MPI_MPICH, &g, "one network interface");
	clear(&g);

	give(&g, "a:2,b:2,c:1");
	line(HVD_MPI_MPICH, &g, "-l -np 5 -ppn 2 -hosts a,b,c -bind-to none -map-by slot");
	clear(&g);
	give(&g, "a:2,b:1,c:2");
	refused(HVD_MPI_MPICH, &g, "MPICH needs the same number of slots on every host, but a has 2 and b has 1");
	clear(&g);
	give(&g, "a:1,b:2");
	refused(HVD_MPI_INTEL, &g, "Intel MPI needs the same number of slots");
	clear(&g);
}

TEST(addresses_as_hosts)
{
	struct given g;

	give(&g, "[fd00::1]:2,10.0.0.1:1");
	assert_text(hvd_mpi_hosts(&g.hosts, true), "[fd00::1]:2,10.0.0.1:1");
	assert_text(hvd_mpi_hosts(&g.hosts, false), "fd00::1,10.0.0.1");
	clear(&g);
}

/* ---- in the shim ---- */

static const char *const names[] = {"OMPI_COMM_WORLD_RANK",
				    "OMPI_COMM_WORLD_SIZE",
				    "OMPI_COMM_WORLD_LOCAL_RANK",
				    "OMPI_COMM_WORLD_LOCAL_SIZE",
				    "PMI_RANK",
				    "PMI_SIZE",
				    "MPI_LOCALRANKID",
				    "MPI_LOCALNRANKS",
				    "PMIX_RANK"};

static int no_mpi(void **state)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unsetenv(names[i]);
	return 0;
}

/* Rank 4 of "a:3,b:2,c:1" is the second of b. */
static void is_rank_4(void)
{
	struct hvd_taskinfo info;

	assert_int_equal(hvd_taskinfo_mpi("a:3,b:2,c:1", &info, NULL), 0);
	assert_string_equal(info.name, "b");
	assert_int_equal(info.rank, 4);
	assert_int_equal(info.size, 6);
	assert_int_equal(info.node, 1);
	assert_int_equal(info.nodes, 3);
	assert_int_equal(info.local_rank, 1);
	assert_int_equal(info.local_size, 2);
	assert_int_equal(info.ranks[0], 3);
	assert_int_equal(info.ranks[1], 4);
	hvd_taskinfo_free(&info);
}

TEST_WITH(finds_its_place, no_mpi, no_mpi)
{
	setenv("PMIX_RANK", "4", 1);
	is_rank_4();
	setenv("PMI_RANK", "4", 1);
	setenv("PMI_SIZE", "6", 1);
	setenv("MPI_LOCALRANKID", "1", 1);
	setenv("MPI_LOCALNRANKS", "2", 1);
	setenv("PMIX_RANK", "0", 1); /* of a job around this one */
	is_rank_4();
	setenv("OMPI_COMM_WORLD_RANK", "4", 1);
	setenv("OMPI_COMM_WORLD_SIZE", "6", 1);
	setenv("OMPI_COMM_WORLD_LOCAL_RANK", "1", 1);
	setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2", 1);
	setenv("PMI_RANK", "0", 1);
	is_rank_4();
}

static void misplaced(const char *hosts, const char *why)
{
	struct hvd_taskinfo info;
	struct hvd_err err = {0};

	assert_int_equal(hvd_taskinfo_mpi(hosts, &info, &err), -1);
	assert_null(info.ranks);
	assert_in(err.msg, why);
}

TEST_WITH(refuses_another_place, no_mpi, no_mpi)
{
	char own[256] = "", hosts[300];

	misplaced("a:3,b:2,c:1", "no variable of an MPI gives the rank");
	setenv("OMPI_COMM_WORLD_RANK", "4", 1);
	setenv("OMPI_COMM_WORLD_LOCAL_RANK", "0", 1);
	misplaced("a:3,b:2,c:1", "OMPI_COMM_WORLD_LOCAL_RANK is 0, not 1");
	setenv("OMPI_COMM_WORLD_LOCAL_RANK", "x", 1);
	misplaced("a:3,b:2,c:1", "OMPI_COMM_WORLD_LOCAL_RANK is x");
	setenv("OMPI_COMM_WORLD_LOCAL_RANK", "1", 1);
	setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "3", 1);
	misplaced("a:3,b:2,c:1", "OMPI_COMM_WORLD_LOCAL_SIZE is 3");
	unsetenv("OMPI_COMM_WORLD_LOCAL_SIZE");
	setenv("OMPI_COMM_WORLD_SIZE", "5", 1);
	misplaced("a:3,b:2,c:1", "OMPI_COMM_WORLD_SIZE is 5");
	unsetenv("OMPI_COMM_WORLD_SIZE");
	misplaced("a:2,b:2", "MPI gives rank 4, but the launch has 4 ranks");
	misplaced("a:2,,b:2", "");
	misplaced("", "");
	setenv("OMPI_COMM_WORLD_RANK", "-1", 1);
	misplaced("a:3,b:2,c:1", "OMPI_COMM_WORLD_RANK=-1");
	/* On a host that the list gives other ranks. */
	assert_int_equal(gethostname(own, sizeof(own) - 1), 0);
	snprintf(hosts, sizeof(hosts), "another-host:1,%s:1", own);
	setenv("OMPI_COMM_WORLD_RANK", "0", 1);
	setenv("OMPI_COMM_WORLD_LOCAL_RANK", "0", 1);
	misplaced(hosts, "not on another-host");
}

/* ---- what ranks are told ---- */

TEST(tells_mpi_ranks)
{
	struct hvd_rank_slot slot = {.size = 4};
	struct hvd_emit in = {.frameworks = HVD_FW_HOROVOD,
			      .mpi = true,
			      .slot = &slot,
			      .hostname = "a",
			      .iface = "ib0",
			      .ifaces = "ib0,eth0"};
	char *theirs[] = {(char *)"OMPI_MCA_btl_tcp_if_exclude=lo", NULL};
	struct hvd_strv env = {0};

	hvd_emit_all(&in, &env);
	assert_string_equal(hvd_env_get(&env, "HOROVOD_CONTROLLER"), "mpi");
	assert_string_equal(hvd_env_get(&env, "HOROVOD_GLOO_IFACE"), "ib0");
	assert_string_equal(hvd_env_get(&env, "NCCL_SOCKET_IFNAME"), "=ib0,eth0");
	assert_null(hvd_env_get(&env, "HOROVOD_RANK"));
	assert_null(hvd_env_get(&env, "HOROVOD_CPU_OPERATIONS"));
	assert_null(hvd_env_get(&env, "HOROVOD_GLOO_RENDEZVOUS_ADDR"));
	assert_string_equal(hvd_env_get(&env, "OMPI_MCA_btl_tcp_if_include?OMPI_MCA_btl_tcp_if_exclude"), "ib0,eth0");
	hvd_strv_free(&env);
	in.one_machine = true;
	hvd_emit_all(&in, &env);
	assert_null(hvd_env_get(&env, "OMPI_MCA_btl_tcp_if_include?OMPI_MCA_btl_tcp_if_exclude"));
	hvd_strv_free(&env);

	assert_text(hvd_emit_name("A?B", NULL), "A");
	assert_text(hvd_emit_name("OMPI_MCA_btl", theirs), "OMPI_MCA_btl");
	assert_null(hvd_emit_name("OMPI_MCA_btl_tcp_if_include?OMPI_MCA_btl_tcp_if_exclude", theirs));
	assert_null(hvd_emit_name("OMPI_MCA_btl_tcp_if_exclude?X", theirs));
}

RUN_TESTS()
