/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi.h"

#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"
#include "lib/net/nicspec.h"
#include "lib/process/capture.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* With this many hosts or more, mpirun starts all of Open MPI's daemons itself, instead of in a tree. */
#define MANY_HOSTS 64
/* More bytes than --version prints. */
#define ANSWER_MAX 65536

#define HINT_INSTALL                                                                                                   \
	"load the module of Open MPI, IBM Spectrum MPI, MPICH or Intel MPI; or leave --mpi out to use the Gloo "       \
	"controller, which needs no MPI"

const char *hvd_mpi_name(enum hvd_mpi mpi)
{
	static const char *const names[] = {
		[HVD_MPI_OPEN] = "Open MPI", [HVD_MPI_PRRTE] = "Open MPI",  [HVD_MPI_SPECTRUM] = "IBM Spectrum MPI",
		[HVD_MPI_MPICH] = "MPICH",   [HVD_MPI_INTEL] = "Intel MPI",
	};

	return names[mpi];
}

bool hvd_mpi_hydra(enum hvd_mpi mpi)
{
	return mpi == HVD_MPI_MPICH || mpi == HVD_MPI_INTEL;
}

bool hvd_mpi_keeps_output(enum hvd_mpi mpi)
{
	return mpi == HVD_MPI_OPEN || mpi == HVD_MPI_SPECTRUM;
}

/* "mpirun (Open MPI) 5.0.7". A text without a release counts as one before 5: these were in use for longest. */
static int open_mpi_release(const char *text)
{
	static const char name[] = "(Open MPI) ";
	const char *at = strstr(text, name);

	return at && strtol(at + sizeof(name) - 1, NULL, 10) >= 5 ? HVD_MPI_PRRTE : HVD_MPI_OPEN;
}

int hvd_mpi_from_version(const char *text)
{
	/* A derived MPI comes first, because it may print the name of the original as well. */
	static const struct {
		const char *text;
		enum hvd_mpi mpi;
	} known[] = {
		{"IBM Spectrum MPI", HVD_MPI_SPECTRUM}, {"Open MPI", HVD_MPI_OPEN}, {"OpenRTE", HVD_MPI_OPEN},
		{"Intel(R) MPI", HVD_MPI_INTEL},        {"MPICH", HVD_MPI_MPICH},   {"HYDRA", HVD_MPI_MPICH},
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strstr(text, known[i].text))
			return known[i].mpi == HVD_MPI_OPEN ? open_mpi_release(text) : (int)known[i].mpi;
	return -1;
}

int hvd_mpi_detect(const char *program, char *const *envp, hvd_time deadline, enum hvd_mpi *mpi, struct hvd_err *err)
{
	char *argv[] = {(char *)program, (char *)"--version", NULL};
	struct hvd_spawn spawn = {.path = program, .argv = argv, .envp = envp, .parent_death_signal = SIGKILL};
	int status = 0, found;
	char *text, how[64];
	size_t len;

	text = hvd_capture(&spawn, ANSWER_MAX, deadline, &len, &status, err);
	if (!text) {
		hvd_err_prefix(err, "%s --version", program);
		return hvd_err_hint(err, HINT_INSTALL);
	}
	found = hvd_mpi_from_version(text);
	text[strcspn(text, "\n")] = '\0';
	if (status != 0) {
		hvd_err_set(err, HVD_E_NOENT, "%s --version fails: %s: %.200s", program,
			    hvd_status_text(status, how, sizeof(how)), text);
		found = -1;
	} else if (found < 0) {
		hvd_err_set(err, HVD_E_USAGE, "%s belongs to an unknown MPI: %.200s", program, text);
	}
	free(text);
	if (found < 0)
		return hvd_err_hint(err, HINT_INSTALL);
	*mpi = (enum hvd_mpi)found;
	return 0;
}

static void add(struct hvd_strv *argv, const char *a, const char *b, const char *c)
{
	hvd_strv_add(argv, a);
	if (b)
		hvd_strv_add(argv, b);
	if (c)
		hvd_strv_add(argv, c);
}

char *hvd_mpi_hosts(const struct hvd_alloc *hosts, bool slots)
{
	char *all = hvd_xstrdup("");

	for (int i = 0; i < hosts->n_hosts; i++) {
		const struct hvd_alloc_host *h = &hosts->hosts[i];
		bool colons = slots && strchr(h->name, ':');

		hvd_xappendf(&all, "%s%s%s%s", i ? "," : "", colons ? "[" : "", h->name, colons ? "]" : "");
		if (slots)
			hvd_xappendf(&all, ":%d", h->slots);
	}
	return all;
}

char *hvd_mpi_ssh_args(const struct hvd_mpi_job *job)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv words = {0};

	if (job->any_host_key)
		hvd_strv_add(&words, "-oStrictHostKeyChecking=no");
	if (job->ssh_port > 0)
		hvd_strv_addf(&words, "-p %d", job->ssh_port);
	if (job->ssh_identity)
		hvd_strv_addf(&words, "-i %s", job->ssh_identity);
	return hvd_strv_join(&words, " ");
}

/* Append the words of an option's value, as a shell would split them. */
static int add_words(struct hvd_strv *argv, const char *option, const char *text, struct hvd_err *err)
{
	if (hvd_shell_split(text, argv) == 0)
		return 0;
	hvd_err_set(err, HVD_E_USAGE, "option --%s: a quote is not closed: %s", option, text);
	return hvd_err_hint(err, "it is parsed as a shell parses it");
}

static int binding(enum hvd_mpi mpi, const struct hvd_mpi_job *job, struct hvd_strv *argv, struct hvd_err *err)
{
	if (job->binding_args)
		return add_words(argv, "binding-args", job->binding_args, err);
	if (mpi == HVD_MPI_SPECTRUM) {
		add(argv, "-bind-to", "socket", NULL);
		add(argv, "-map-by", "socket", NULL);
		add(argv, "-rank-by", "core", NULL);
	} else if (mpi == HVD_MPI_PRRTE) {
		add(argv, "--bind-to", "none", NULL);
		add(argv, "--map-by", "slot", NULL);
	} else if (mpi != HVD_MPI_INTEL) {
		add(argv, "-bind-to", "none", NULL);
		add(argv, "-map-by", "slot", NULL);
	}
	return 0;
}

static void add_hosts(const struct hvd_mpi_job *job, struct hvd_strv *argv)
{
	hvd_cleanup_free char *hosts = hvd_mpi_hosts(job->hosts, true);

	hvd_strv_add(argv, "-np");
	hvd_strv_addf(argv, "%d", job->hosts->slots);
	add(argv, "-H", hosts, NULL);
}

/* For many hosts, keep Open MPI's daemons from starting each other in a tree; and set the ssh command. `param` is the
 * option that sets a parameter of the daemons; the other three are parameters. */
static void add_daemons(const struct hvd_mpi_job *job, const char *param, const char *no_tree, const char *at_once,
			const char *args, struct hvd_strv *argv)
{
	hvd_cleanup_free char *ssh = hvd_mpi_ssh_args(job);

	if (job->hosts->n_hosts >= MANY_HOSTS) {
		add(argv, param, no_tree, "true");
		add(argv, param, at_once, NULL);
		hvd_strv_addf(argv, "%d", job->hosts->n_hosts);
	}
	if (*ssh)
		add(argv, param, args, ssh);
}

/* The user's interfaces, separated by commas, if all of them are names: an MPI understands nothing else. Otherwise "",
 * and the ranks' shims set the plan's interfaces. Caller frees. */
static char *plain_nics(const struct hvd_mpi_job *job)
{
	HVD_CLEANUP(hvd_nicspec_clear) struct hvd_nicspec spec = {0};
	size_t n = 0;

	if (hvd_nicspec_parse(&spec, job->nics->v, NULL) != 0)
		return hvd_xstrdup("");
	while (hvd_nicspec_name(&spec, n))
		n++;
	return n == spec.n ? hvd_strv_join(job->nics, ",") : hvd_xstrdup("");
}

/* Did the user set the interfaces of NCCL? */
static bool has_nccl_nics(const struct hvd_mpi_job *job)
{
	return hvd_strv_has(job->exports, "NCCL_SOCKET_IFNAME");
}

/* Pass the interfaces and the user's variables to the ranks' processes. */
static void add_ranks(const struct hvd_mpi_job *job, const char *param, struct hvd_strv *argv)
{
	hvd_cleanup_free char *nics = plain_nics(job);

	if (*nics)
		add(argv, param, "btl_tcp_if_include", nics);
	if (*nics && !has_nccl_nics(job)) {
		hvd_strv_add(argv, "-x");
		hvd_strv_addf(argv, "NCCL_SOCKET_IFNAME==%s", nics);
	}
	for (size_t i = 0; i < job->exports->n; i++)
		add(argv, "-x", job->exports->v[i], NULL);
}

static int open_mpi(enum hvd_mpi mpi, const struct hvd_mpi_job *job, struct hvd_strv *argv, struct hvd_err *err)
{
	int rc;

	add(argv, "--allow-run-as-root", "--tag-output", NULL);
	add_hosts(job, argv);
	rc = binding(mpi, job, argv, err);
	if (mpi == HVD_MPI_OPEN) {
		add(argv, "-mca", "pml", "ob1");
		add(argv, "-mca", "btl", "^openib");
	} else if (job->tcp) {
		hvd_strv_add(argv, "-tcp");
	}
	add_daemons(job, "-mca", "plm_rsh_no_tree_spawn", "plm_rsh_num_concurrent", "plm_rsh_args", argv);
	if (job->timestamps)
		hvd_strv_add(argv, "--timestamp-output");
	if (job->keep_going)
		add(argv, "-mca", "orte_abort_on_non_zero_status", "0");
	if (job->output_dir)
		add(argv, "--output-filename", job->output_dir, NULL);
	add_ranks(job, "-mca", argv);
	return rc;
}

static int prrte(enum hvd_mpi mpi, const struct hvd_mpi_job *job, struct hvd_strv *argv, struct hvd_err *err)
{
	int rc;

	hvd_strv_add(argv, "--allow-run-as-root");
	add(argv, "--output", job->timestamps ? "tag,timestamp" : "tag", NULL);
	add_hosts(job, argv);
	rc = binding(mpi, job, argv, err);
	add(argv, "--mca", "pml", "ob1");
	add(argv, "--mca", "btl", "^openib");
	add_daemons(job, "--prtemca", "plm_ssh_no_tree_spawn", "plm_ssh_num_concurrent", "plm_ssh_args", argv);
	if (job->keep_going)
		add(argv, "--runtime-options", "error-nonzero-status=false", NULL);
	add_ranks(job, "--mca", argv);
	return rc;
}

/* hydra starts the same number of ranks on each host; only the last host may have fewer. */
static int ranks_per_host(enum hvd_mpi mpi, const struct hvd_alloc *hosts, struct hvd_err *err)
{
	int n = hosts->n_hosts, each = hosts->hosts[0].slots;

	for (int i = 1; i < n; i++) {
		int slots = hosts->hosts[i].slots;

		if (slots == each || (slots < each && i == n - 1))
			continue;
		hvd_err_set(err, HVD_E_USAGE,
			    "%s needs the same number of slots on every host, but %s has %d and %s has %d",
			    hvd_mpi_name(mpi), hosts->hosts[0].name, each, hosts->hosts[i].name, slots);
		hvd_err_hint(err, "ask for equal slots (--hosts, --slots-per-host), or use Open MPI or Gloo");
		return -1;
	}
	return each;
}

static int hydra(enum hvd_mpi mpi, const struct hvd_mpi_job *job, struct hvd_strv *argv, struct hvd_err *err)
{
	int each = ranks_per_host(mpi, job->hosts, err);
	hvd_cleanup_free char *hosts = NULL, *ssh = NULL, *nics = NULL;

	if (each < 0)
		return -1;
	if (job->nics->n > 1) {
		hvd_err_set(err, HVD_E_USAGE, "%s accepts one network interface, but %zu are named", hvd_mpi_name(mpi),
			    job->nics->n);
		return hvd_err_hint(err, "name one of them");
	}
	if (job->timestamps || (job->keep_going && mpi == HVD_MPI_INTEL)) {
		hvd_err_set(err, HVD_E_USAGE, "%s does not support %s", hvd_mpi_name(mpi),
			    job->timestamps ? "--prefix-output-with-timestamp" : "--keep-going");
		return hvd_err_hint(err, "leave the option out, or use Open MPI or Gloo");
	}
	hosts = hvd_mpi_hosts(job->hosts, false);
	ssh = hvd_mpi_ssh_args(job);
	hvd_strv_add(argv, "-l");
	hvd_strv_add(argv, "-np");
	hvd_strv_addf(argv, "%d", job->hosts->slots);
	hvd_strv_add(argv, "-ppn");
	hvd_strv_addf(argv, "%d", each);
	add(argv, "-hosts", hosts, NULL);
	each = binding(mpi, job, argv, err);
	if (*ssh)
		add(argv, "-bootstrap", "ssh", NULL);
	if (*ssh && mpi == HVD_MPI_INTEL)
		add(argv, "-bootstrap-exec-args", ssh, NULL);
	nics = plain_nics(job);
	if (*nics)
		add(argv, "-iface", job->nics->v[0], NULL);
	if (*nics && !has_nccl_nics(job)) {
		hvd_strv_add(argv, "-genv");
		hvd_strv_add(argv, "NCCL_SOCKET_IFNAME");
		hvd_strv_addf(argv, "=%s", job->nics->v[0]);
	}
	if (job->keep_going)
		hvd_strv_add(argv, "-disable-auto-cleanup");
	return each;
}

int hvd_mpi_args(enum hvd_mpi mpi, const struct hvd_mpi_job *job, struct hvd_strv *argv, struct hvd_err *err)
{
	if ((hvd_mpi_hydra(mpi) ? hydra : mpi == HVD_MPI_PRRTE ? prrte : open_mpi)(mpi, job, argv, err) != 0)
		return -1;
	return job->more_args ? add_words(argv, "mpi-args", job->more_args, err) : 0;
}
