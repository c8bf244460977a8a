/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_roles.c - any command line of several roles, and any file of them; then the hosts of the roles, and the variables of
 * their ranks.
 *
 * The first byte is the number of hosts. A command line is words, each ended by a NUL. If the second byte is '\1', the rest
 * is the text of a file. Inputs that may name a configuration file are left out, for it would be read.
 */
#include "fuzz.h"
#include "launcher/options/role_specs.h"
#include "launcher/roles/role_env.h"
#include "launcher/roles/role_hosts.h"
#include "lib/base/size.h"

#define MOST       256
#define MOST_HOSTS 64

static void check_specs(const struct hvd_role_specs *specs)
{
	must(specs->n > 0 && specs->n <= HVD_MAX_RANK_WORLDS && hvd_role_worlds(specs) <= HVD_MAX_RANK_WORLDS);
	for (size_t i = 0; i < specs->n; i++) {
		const struct hvd_role_spec *role = &specs->v[i];

		must(hvd_role_find(specs, role->name) == (int)i && strlen(role->name) <= 32);
		must(role->spec.command && role->spec.command[0]);
		must(role->with < (int)specs->n && role->with != (int)i && role->replicas > 0);
		must(role->after >> specs->n == 0);
	}
}

static in_port_t port_of(int world, int host, int local_rank, unsigned i, void *arg)
{
	(void)world, (void)host, (void)arg;
	return (in_port_t)(1 + local_rank + (int)i);
}

/* Ranks have the variables of their role; no host has two roles with hosts of their own. */
static void check_hosts(const struct hvd_role_specs *specs, const struct hvd_role_hosts *hosts,
			const struct hvd_alloc *alloc)
{
	int owner[MOST_HOSTS] = {0};
	struct hvd_addr addrs[MOST_HOSTS] = {{0}};
	struct hvd_role_env env;

	for (int i = 0; i < alloc->n_hosts; i++)
		hvd_addr_parse("10.0.0.1", &addrs[i]);
	hvd_role_env_make(&env, specs, hosts, alloc, addrs, port_of, NULL);
	must(hosts->n_worlds == hvd_role_worlds(specs));
	for (int i = 0; i < hosts->n_worlds; i++) {
		const struct hvd_role_world *w = &hosts->worlds[i];
		struct hvd_strv to = {0};

		for (int k = 0; k < w->n_places; k++) {
			const struct hvd_role_place *place = &w->places[k];

			must(place->host >= 0 && place->host < alloc->n_hosts && place->slots > 0);
			must(place->share.cpus.first >= 0 && place->share.gpus.first >= 0 && place->share.cpus.n >= -1);
			must(specs->v[w->role].with >= 0 || !owner[place->host] || owner[place->host] == w->role + 1);
			if (specs->v[w->role].with < 0)
				owner[place->host] = w->role + 1;
		}
		must(w->n_places > 0);
		hvd_role_env_emit(&env, hosts, i, &to);
		must(strcmp(hvd_env_get(&to, "HVD_ROLE"), specs->v[w->role].name) == 0);
		hvd_strv_free(&to);
	}
	hvd_role_env_clear(&env);
}

static void place(const struct hvd_role_specs *specs, int n)
{
	int cpus[MOST_HOSTS], gpus[MOST_HOSTS];
	struct hvd_alloc alloc = {0};
	struct hvd_role_ground ground = {
		.alloc = &alloc, .slots_bind = n & 1, .cpus = n & 2 ? cpus : NULL, .gpus = n & 4 ? gpus : NULL};
	struct hvd_role_hosts hosts;
	struct hvd_err err = {0};

	for (int i = 0; i < n % MOST_HOSTS; i++) {
		char name[16];

		snprintf(name, sizeof(name), "n%d", i);
		must(hvd_alloc_add(&alloc, name, (i * 7) % 9, NULL) == 0);
		cpus[i] = (i * 5) % 32;
		gpus[i] = i % 9 - 1;
		alloc.hosts[i].component = n % 5 == 0 ? i / 16 + 1 : 0;
	}
	if (hvd_role_hosts_assign(&hosts, specs, &ground, &err) == 0) {
		check_hosts(specs, &hosts, &alloc);
		free(hvd_role_hosts_text(&hosts, specs, &alloc));
	} else {
		must(err.code == HVD_E_USAGE && err.msg[0]);
	}
	hvd_role_hosts_clear(&hosts);
	hvd_alloc_clear(&alloc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char program[] = "hvdrun", option[] = "--roles=f";
	char *text, *argv[MOST + 2] = {program};
	struct hvd_role_specs specs;
	struct hvd_err err = {0};
	int argc = 1, rc;
	bool file;

	if (size < 2 || memmem(data, size, "conf", 4))
		return 0;
	file = data[1] == '\1';
	text = fuzz_text(data + 1 + file, size - 1 - (size_t)file);
	if (file)
		argv[argc++] = option;
	else
		for (char *w = text; w < text + size - 1 && argc < MOST; w += strlen(w) + 1)
			argv[argc++] = w;
	argv[argc] = NULL;
	hvd_role_specs_wanted(argc, argv);
	rc = hvd_role_specs_parse(&specs, argc, argv, NULL, file ? text : "", file ? size - 2 : 0, &err);
	if (rc == 0) {
		check_specs(&specs);
		place(&specs, data[0]);
	} else {
		must(err.msg[0] && specs.n == 0);
	}
	hvd_role_specs_clear(&specs);
	free(text);
	return 0;
}
