/* SPDX-License-Identifier: Apache-2.0 */
#include "rank_env.h"

#include "lib/base/cleanup.h"
#include "lib/base/key.h"
#include "lib/frameworks/launch_marks.h"
#include "lib/host/rank_error.h"
#include "lib/process/apptainer.h"
#include "lib/process/call.h"
#include "lib/protocol/boot.h"
#include "lib/protocol/func_key.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_CPUS (1024 * 64)

#define COMMAND_SECONDS 2.0 /* a file system that is slower tells nothing */

extern char **environ;

int hvd_rank_env_cpus(void)
{
	int n = 0;

	/* The kernel refuses a mask that is smaller than its own. */
	for (int most = 1024; n == 0 && most <= MOST_CPUS; most *= 4) {
		cpu_set_t *mask = CPU_ALLOC(most);
		size_t size = CPU_ALLOC_SIZE(most);

		if (mask && sched_getaffinity(0, size, mask) == 0)
			n = CPU_COUNT_S(size, mask);
		else if (!mask || errno != EINVAL)
			most = MOST_CPUS;
		CPU_FREE(mask);
	}
	return n;
}

struct hvd_rank_facts hvd_rank_env_facts(bool slurm_task)
{
	const char *slurm = slurm_task ? getenv("SLURM_CPUS_ON_NODE") : NULL;
	int online = (int)sysconf(_SC_NPROCESSORS_ONLN), all = slurm ? atoi(slurm) : online;

	return (struct hvd_rank_facts){
		.envp = environ, .slurm_task = slurm_task, .cpus = hvd_rank_env_cpus(), .host_cpus = all > 0 ? all : 0};
}

static void find_facts(int out, void *arg)
{
	struct hvd_command_facts facts = hvd_command_facts(arg, environ);

	if (write(out, &facts, sizeof(facts)) != (ssize_t)sizeof(facts))
		_exit(1);
}

struct hvd_command_facts hvd_rank_env_command(const json_t *plan, char *const *argv)
{
	struct hvd_command_facts facts = {0};
	hvd_cleanup_free char *answer = NULL;
	size_t len;

	if (!json_object_get(plan, "TORCHELASTIC_USE_AGENT_STORE"))
		return facts;
	answer = hvd_call(find_facts, (void *)argv, "the look at the command", sizeof(facts),
			  hvd_deadline_in(COMMAND_SECONDS), &len, NULL, NULL);
	if (answer && len == sizeof(facts))
		memcpy(&facts, answer, sizeof(facts));
	return facts;
}

void hvd_rank_env_own_command(const json_t *words, struct hvd_strv *argv)
{
	size_t i;
	json_t *word;

	json_array_foreach(words, i, word)
	{
		if (json_is_string(word))
			hvd_strv_add(argv, json_string_value(word));
	}
}

struct hvd_name_service hvd_rank_env_names(const json_t *plan)
{
	const char *store = json_string_value(json_object_get(plan, "MASTER_ADDR"));
	const char *hosts = json_string_value(json_object_get(plan, "GROUP_WORLD_SIZE"));
	bool one_host = !hosts || atoi(hosts) < 2;
	struct hvd_addr addr;

	/* Ranks of several hosts look up names of others, also if the store is a relay on loopback. */
	if (store && hvd_addr_parse(store, &addr) == 0 && !(one_host && hvd_addr_loopback(&addr)))
		return hvd_name_service_ask(&addr);
	/* Without the plan's variables for PyTorch, only the own name matters, to Horovod. */
	if (!store && json_object_get(plan, "HOROVOD_GLOO_IFACE"))
		return hvd_name_service_ask(NULL);
	return (struct hvd_name_service){0};
}

json_t *hvd_rank_env_own_name(const struct hvd_name_service *names)
{
	char text[HVD_ADDR_TEXT];

	if (names->own.family == AF_UNSPEC)
		return NULL;
	return json_pack("{s:s, s:s}", "t", "own-name", "addr", hvd_addr_text(&names->own, text));
}

void hvd_rank_env_add(struct hvd_strv *env, const json_t *plan, const struct hvd_rank_facts *facts, const char *command,
		      const struct hvd_log *log)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv planned = {0}, resolved = {0};
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)plan, name, value)
	{
		if (json_is_string(value))
			hvd_env_set(&planned, name, json_string_value(value));
	}
	hvd_resolve(&planned, facts, log, &resolved);
	hvd_launch_marks_set(&resolved);
	for (size_t i = 0; i < resolved.n; i++) {
		char *set = strchr(resolved.v[i], '=');

		*set = '\0';
		hvd_apptainer_setenv(env, command, resolved.v[i], set + 1);
	}
}

void hvd_rank_env_warn_without_pmi(const json_t *plan, uint32_t size, const struct hvd_log *log)
{
	const char *controller = json_string_value(json_object_get(plan, "HOROVOD_CONTROLLER"));

	if (size < 2 || !controller || strcmp(controller, "mpi") != 0 || getenv("PMIX_RANK") || getenv("PMI_RANK") ||
	    getenv("OMPI_COMM_WORLD_RANK"))
		return;
	hvd_warn(log, "the controller is MPI, but this process has no MPI rank");
	hvd_info(log, "add --mpi=pmix (Open MPI) or --mpi=pmi2 (MPICH, Intel MPI) to srun; 'srun --mpi=list' shows "
		      "what it supports");
}

void hvd_rank_env_error_file(struct hvd_strv *env, const char *path)
{
	const char *set = hvd_env_get(env, HVD_RANK_ERROR_FILE);

	if (path && hvd_env_get(env, HVD_RANK_ERROR_FILE_WITH) &&
	    !hvd_rank_error_file_set(set ? set : getenv(HVD_RANK_ERROR_FILE)))
		hvd_env_set(env, HVD_RANK_ERROR_FILE, path);
}

void hvd_rank_env_make(struct hvd_strv *env, const json_t *plan, const struct hvd_rank_facts *facts,
		       const char *command, int key_fd, const struct hvd_log *log)
{
	char number[16];

	hvd_strv_add_all(env, facts->envp);
	hvd_env_unset(env, HVD_BOOT_ENV);
	hvd_rank_env_add(env, plan, facts, command, log);
	if (key_fd == 0)
		return;
	snprintf(number, sizeof(number), "%d", key_fd);
	hvd_apptainer_setenv(env, command, HVD_FUNC_KEY_ENV, number);
}

int hvd_rank_key_take(const json_t *plan, const struct hvd_key *session_key, int *fd, struct hvd_err *err)
{
	struct hvd_key key;
	int memory, rc = 0;

	*fd = 0;
	if (!json_is_true(json_object_get(plan, "func_key")))
		return 0;
	key = hvd_func_key(session_key);
	memory = hvd_key_memfd(&key, err);
	explicit_bzero(&key, sizeof(key));
	if (memory < 0)
		return -1;
	/* The command may find stdin, stdout or stderr closed: the key's descriptor must not take their numbers. */
	*fd = fcntl(memory, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (*fd < 0) {
		rc = hvd_err_sys(err, "cannot store the key of --run-func");
		*fd = 0;
	}
	close(memory);
	return rc;
}
