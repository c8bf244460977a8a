/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ssh.c - ranks on listed hosts, without any scheduler: one ssh per host, which starts that host's node agent.
 *
 * The command line that ssh carries says only which ranks the host has, in words
 * that every login shell leaves as they are. The node agent reads all else, also
 * the user's command, from its stdin (lib/protocol/preamble.h). The node agent of
 * this machine needs no ssh.
 */
#include "backend.h"

#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"
#include "lib/net/addr.h"
#include "lib/process/spawn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* If a scheduler without a starter of its own grants the hosts, or if one of the listed hosts is another machine. A list
 * that cannot be read suits only fork, which then reports it. */
static bool suits(const struct hvd_launch *launch)
{
	struct hvd_launch listed = {.spec = launch->spec};
	bool other = false;

	if (hvd_launch_has_granted(launch))
		return true;
	if (!launch->spec->hosts.listed || hvd_launch_listed(&listed, NULL) != 0)
		return false;
	hvd_launch_find_local(launch, &listed.alloc);
	for (int i = 0; i < listed.alloc.n_hosts; i++)
		other |= !hvd_launch_is_local(launch, listed.alloc.hosts[i].name);
	hvd_alloc_clear(&listed.alloc);
	return other;
}

static const char *program(const struct hvd_launch *launch)
{
	const char *named = hvd_envp_value(launch->envp, "HVD_SSH");

	return named ? named : "ssh";
}

static int connect_seconds(double start)
{
	int seconds = (int)(start + 0.999) - 1;

	return seconds > 1 ? seconds : 1;
}

/* ssh and its options: it must not ask questions, nor do what the user's configuration adds to a login. */
static void add_ssh(const struct hvd_launch *launch, struct hvd_strv *argv)
{
	static const char *const fixed[] = {
		"-T",
		"-a",
		"-x",
		"-oBatchMode=yes",
		"-oClearAllForwardings=yes",
		"-oControlMaster=no",
		"-oRemoteCommand=none",
	};
	const struct hvd_launch_spec *spec = launch->spec;

	hvd_strv_add(argv, program(launch));
	for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
		hvd_strv_add(argv, fixed[i]);
	/* horovodrun does not check host keys, and its users may have no known_hosts. */
	if (spec->as_horovodrun)
		hvd_strv_add(argv, "-oStrictHostKeyChecking=no");
	/* Before the start's time is over, so that ssh says itself that it cannot reach the host. */
	hvd_strv_addf(argv, "-oConnectTimeout=%d", connect_seconds(spec->deadlines.start));
	if (spec->ssh.port)
		hvd_strv_addf(argv, "-p%d", spec->ssh.port);
	if (spec->ssh.identity) {
		hvd_strv_add(argv, "-i");
		hvd_strv_add(argv, spec->ssh.identity);
	}
}

static void reach(const struct hvd_launch *launch, const char *host, char *const *shim, struct hvd_strv *argv)
{
	hvd_cleanup_free char *line = hvd_shell_join(shim);

	add_ssh(launch, argv);
	hvd_strv_add(argv, "--");
	hvd_strv_add(argv, host);
	hvd_strv_addf(argv, "exec %s", line);
}

/* The user tries the same call of ssh, with the port and the key that were given. */
static void explain_ssh(const struct hvd_launch *launch, const char *host, struct hvd_err *why)
{
	const struct hvd_launch_spec *spec = launch->spec;
	hvd_cleanup_free char *key = spec->ssh.identity ? hvd_shell_quote(spec->ssh.identity) : NULL;
	char port[24] = "";

	if (spec->ssh.port)
		snprintf(port, sizeof(port), "-p%d ", spec->ssh.port);
	hvd_err_hint(why,
		     "this must work without a question: %s -oBatchMode=yes %s%s%s%s%s true. If it does not: is the "
		     "host up%s, "
		     "is its key in known_hosts, does it accept your key%s?",
		     program(launch), port, key ? "-i " : "", key ? key : "", key ? " " : "", host,
		     spec->ssh.port ? ", does its sshd listen on that port" : "",
		     key ? "" : " (--ssh-identity-file, ssh-agent)");
}

/* ssh exits with 255 when it fails itself. The remote shell exits with 127 when it does not find hvd-agent, with 126
 * when it may not run it. */
static void explain(const struct hvd_launch *launch, const struct hvd_proc *proc, int status, bool registered,
		    struct hvd_err *why)
{
	bool local = hvd_launch_is_local(launch, proc->host);
	int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	char text[64];

	hvd_status_text(status, text, sizeof(text));
	if (!local && code == 255 && !registered && !hvd_name_resolves(proc->host)) {
		hvd_err_set(why, HVD_E_FAILED, "its name does not resolve on this host");
		hvd_err_hint(why, "is it spelled correctly? getent hosts %s must find it in DNS or /etc/hosts",
			     proc->host);
	} else if (!local && code == 255 && !registered) {
		hvd_err_set(why, HVD_E_FAILED, "ssh cannot reach it, or may not log in there");
		explain_ssh(launch, proc->host, why);
	} else if (!local && code == 255) {
		hvd_err_set(why, HVD_E_FAILED, "the ssh connection to it has ended");
		hvd_err_hint(why, "did the host or its network go down?");
	} else if ((code == 126 || code == 127) && !registered) {
		hvd_err_set(why, HVD_E_FAILED, "%s cannot be run there", launch->agent);
		hvd_err_hint(why, "this suite must be installed under the same path on all hosts");
	} else if (registered || !hvd_launch_explain_begin(code, why)) {
		hvd_err_set(why, HVD_E_FAILED, "its %s ended before its ranks did: %s", local ? "node agent" : "ssh",
			    text);
	}
}

const struct hvd_backend hvd_backend_ssh = {
	.name = "ssh",
	.mode = HVD_START_HOSTS,
	.by_stdin = true,
	.fan_out = 32,
	.suits = suits,
	.reach = reach,
	.elastic = &hvd_backend_ssh,
	.explain = explain,
};
