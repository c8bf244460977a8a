/* SPDX-License-Identifier: Apache-2.0 */
/*
 * join.c - ranks in self-registering agents (hvd-agent connect), which something else starts: Spark's executors,
 * containers, a user by hand.
 *
 * Agents connect and wait (agent_pool.h). Each is a host of its own. When the job needs the agent, it becomes the node
 * agent of that host. Its only connection also carries the ranks' input and output. The
 * ranks have the agent's environment and directory; nothing is bound to cores unless the user says so, since the agent
 * may be one of several on its machine.
 */
#include "backend.h"

#include "agent_pool.h"
#include "lib/process/spawn.h"

static bool suits(const struct hvd_launch *launch)
{
	(void)launch;
	return false;
}

static int check(const struct hvd_launch *launch, struct hvd_err *err)
{
	const struct hvd_launch_spec *spec = launch->spec;

	if (!spec->key_file) {
		hvd_err_set(err, HVD_E_USAGE, "--launcher=join needs a key that hvdrun and the agents share");
		return hvd_err_hint(err, "add --key-file=FILE; hvdrun creates the file if it does not exist");
	}
	if (spec->hosts.listed || spec->discovery.from != HVD_DISCOVER_AUTO) {
		hvd_err_set(err, HVD_E_USAGE,
			    "--launcher=join takes no list of hosts: it uses the hosts whose agents connect");
		return hvd_err_hint(err, "leave %s out",
				    spec->hosts.listed ? "the list of hosts"
						       : "--discover and --host-discovery-script");
	}
	if (!spec->elastic.on && spec->ranks.n < 1) {
		hvd_err_set(err, HVD_E_USAGE, "--launcher=join needs the number of ranks");
		return hvd_err_hint(err,
				    "-np N waits for agents with N slots; an elastic job starts with --min-np slots");
	}
	return 0;
}

/* Take the waiting agent of a host. */
static int add_agent(struct hvd_launch *launch, int index, int first_rank, struct hvd_err *err)
{
	const struct hvd_alloc_host *host = &launch->alloc.hosts[index];
	struct hvd_pool_agent *agent = hvd_agent_pool_take(launch->agent_pool, host->name, err);
	struct hvd_proc *proc;

	if (!agent)
		return -1;
	proc = hvd_launch_add(launch, host->name);
	proc->agent = agent;
	hvd_launch_add_agent(launch, proc, "host");
	hvd_launch_add_ranks(launch, index, first_rank, &proc->argv);
	if (launch->spec->binding.given)
		hvd_launch_add_binding(launch, &proc->argv);
	hvd_launch_add_command(launch, &proc->argv);
	return 0;
}

static int add_host(struct hvd_launch *launch, struct hvd_err *err)
{
	return add_agent(launch, 0, 0, err);
}

/* --dry-run: the command line that starts an agent. */
static void preview(struct hvd_launch *launch)
{
	struct hvd_proc *proc = hvd_launch_add(launch, NULL);

	hvd_strv_add(&proc->argv, launch->agent);
	hvd_strv_add(&proc->argv, "connect");
	hvd_strv_add(&proc->argv, "ADDRESS");
	hvd_strv_addf(&proc->argv, "--key-file=%s", launch->spec->key_file);
}

static int prepare(struct hvd_launch *launch, struct hvd_err *err)
{
	const struct hvd_launch_spec *spec = launch->spec;
	int rank = 0;

	if (spec->dry_run) {
		preview(launch);
		return 0;
	}
	if (hvd_agent_pool_gather(launch->agent_pool, spec->ranks.n, spec->deadlines.start, &launch->alloc, err) != 0)
		return -1;
	for (int i = 0; i < launch->alloc.n_hosts; i++) {
		if (add_agent(launch, i, rank, err) != 0)
			return -1;
		rank += launch->alloc.hosts[i].slots;
	}
	launch->one_machine = hvd_agent_pool_on_this_machine(launch->agent_pool);
	return 0;
}

static void explain(const struct hvd_launch *launch, const struct hvd_proc *proc, int status, bool registered,
		    struct hvd_err *why)
{
	char text[64];

	(void)launch;
	(void)proc;
	(void)registered;
	if (status == HVD_PROC_LOST) {
		hvd_err_set(why, HVD_E_FAILED, "its agent was lost"); /* a more detailed message was logged */
		return;
	}
	hvd_status_text(status, text, sizeof(text));
	hvd_err_set(why, HVD_E_FAILED, "its node agent ended before its ranks did: %s", text);
}

const struct hvd_backend hvd_backend_join = {
	.name = "join",
	.mode = HVD_START_HOSTS,
	.fan_out = 32,
	.suits = suits,
	.check = check,
	.prepare = prepare,
	.add_host = add_host,
	.elastic = &hvd_backend_join,
	.explain = explain,
};
