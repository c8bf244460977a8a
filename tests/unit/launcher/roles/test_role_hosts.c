/* SPDX-License-Identifier: Apache-2.0 */
/* The hosts of roles, and the variables that tell of them. */
#include "launcher/roles/role_env.h"
#include "launcher/roles/role_hosts.h"
#include "lib/base/hostlist.h"
#include "lib/base/xalloc.h"
#include "tests/unit/unit.h"

/* What a table of cases says of the hosts: "a:8,b:8", of which 99 slots are none; with 64 CPUs and 8 GPUs each if `rich`, in these components. */
struct given {
	const char *hosts;
	const char *components; /* "0011": a digit for each host; NULL = the job is not heterogeneous */
	bool bind, rich;
};

struct fixture {
	struct hvd_alloc alloc;
	struct hvd_role_specs specs;
	struct hvd_role_hosts hosts;
	int *cpus, *gpus;
};

static int assign(struct fixture *f, const struct given *given, const char *line, struct hvd_err *err)
{
	struct hvd_role_ground ground = {.alloc = &f->alloc, .slots_bind = given->bind};
	struct hvd_strv argv = {0};
	size_t n;
	int rc;

	*f = (struct fixture){0};
	assert_int_equal(hvd_alloc_from_hosts(&f->alloc, given->hosts, 1, err), 0);
	n = (size_t)f->alloc.n_hosts;
	f->cpus = hvd_xcalloc(n, sizeof(int));
	f->gpus = hvd_xcalloc(n, sizeof(int));
	for (size_t i = 0; i < n; i++) {
		f->alloc.hosts[i].component = given->components ? given->components[i] - '0' + 1 : 0;
		f->cpus[i] = 64;
		if (f->alloc.hosts[i].slots == 99)
			f->alloc.hosts[i].slots = 0;
		f->gpus[i] = 8;
	}
	if (given->rich) {
		ground.cpus = f->cpus;
		ground.gpus = f->gpus;
	}
	hvd_strv_add(&argv, "hvdrun");
	assert_int_equal(hvd_shell_split(line, &argv), 0);
	if (hvd_role_specs_load(&f->specs, (int)argv.n, argv.v, NULL, err) != 0)
		fail_msg("%s: %s", line, err->msg);
	hvd_strv_free(&argv);
	rc = hvd_role_hosts_assign(&f->hosts, &f->specs, &ground, err);
	return rc;
}

static void clear(struct fixture *f)
{
	hvd_role_hosts_clear(&f->hosts);
	hvd_role_specs_clear(&f->specs);
	hvd_alloc_clear(&f->alloc);
	free(f->cpus);
	free(f->gpus);
}

/* Each host of the worlds of roles without --with is one role's; a world has a host once; shares are within the host. */
static void check_disjoint(const struct fixture *f)
{
	int *owner = hvd_xcalloc((size_t)f->alloc.n_hosts, sizeof(int));

	for (int i = 0; i < f->hosts.n_worlds; i++) {
		const struct hvd_role_world *w = &f->hosts.worlds[i];
		int ranks = 0;

		for (int k = 0; k < w->n_places; k++) {
			const struct hvd_role_place *place = &w->places[k];

			assert_true(place->slots > 0);
			ranks += place->slots;
			for (int j = 0; j < k; j++)
				assert_int_not_equal(w->places[j].host, place->host);
			if (f->specs.v[w->role].with >= 0)
				continue;
			assert_true(!owner[place->host] || owner[place->host] == w->role + 1);
			owner[place->host] = w->role + 1;
		}
		assert_int_equal(ranks, w->ranks);
	}
	free(owner);
}

static void gives(const struct given *given, const char *line, const char *want)
{
	struct fixture f;
	struct hvd_err err = {0};
	char *text;

	if (assign(&f, given, line, &err) != 0)
		fail_msg("%s: %s", line, err.msg);
	text = hvd_role_hosts_text(&f.hosts, &f.specs, &f.alloc);
	if (strcmp(text, want) != 0)
		fail_msg("%s:\n%snot\n%s", line, text, want);
	free(text);
	check_disjoint(&f);
	clear(&f);
}

static void refuses(const struct given *given, const char *line, const char *msg)
{
	struct fixture f;
	struct hvd_err err = {0};

	if (assign(&f, given, line, &err) == 0)
		fail_msg("accepted: %s", line);
	if (!strstr(err.msg, msg))
		fail_msg("%s: \"%s\" does not say \"%s\"", line, err.msg, msg);
	assert_int_equal(err.code, HVD_E_USAGE);
	assert_int_equal(f.hosts.n_worlds, 0);
	clear(&f);
}

static const struct given six = {.hosts = "n[1-6]:8"};
static const struct given six_bind = {.hosts = "n[1-6]:8", .bind = true};
static const struct given rich = {.hosts = "n[1-2]:8", .rich = true};
static const struct given poor = {.hosts = "n[1-2]:8"};
static const struct given uneven = {.hosts = "a:4,b:99,c:2,d:4"};
static const struct given het = {.hosts = "a:8,b:8,c:1,d:1", .components = "0011"};

TEST(hosts_in_the_order_of_the_allocation)
{
	static const struct {
		const struct given *given;
		const char *line, *want;
	} cases[] = {
		{&six, "--role=t -N4 --ntasks-per-node=8 x : --role=r -N1 --ntasks-per-node=1 --replicas=2 x",
		 "t/0: n1*8, n2*8, n3*8, n4*8\nr/0: n5*1\nr/1: n6*1\n"},
		/* Neither -N nor -n: all that are left. */
		{&six, "--role=a -N1 x : --role=b x", "a/0: n1*8\nb/0: n2*8, n3*8, n4*8, n5*8, n6*8\n"},
		/* -n alone takes slots; the next role begins on a host of its own. */
		{&six, "--role=a -n10 x : --role=b -n9 --ntasks-per-node=4 x",
		 "a/0: n1*8, n2*2\nb/0: n3*4, n4*4, n5*1\n"},
		/* Replicas share hosts then. */
		{&six, "--role=a --replicas=3 -n6 x", "a/0: n1*6\na/1: n1*2, n2*4\na/2: n2*4, n3*2\n"},
		{&six, "--role=a --replicas=2 -n1 x : --role=b -N1 x", "a/0: n1*1\na/1: n1*1\nb/0: n2*8\n"},
		/* -N and -n: evenly. */
		{&six, "--role=a -N3 -n8 x", "a/0: n1*3, n2*3, n3*2\n"},
		/* Slots of a host are no more than a default, unless they bind. */
		{&six, "--role=a -N1 --ntasks-per-node=12 x", "a/0: n1*12\n"},
		{&six, "--role=a -N1 -n12 x", "a/0: n1*12\n"},
		/* A host without slots is nobody's. */
		{&uneven, "--role=a -N2 x : --role=b -N1 x", "a/0: a*4, c*2\nb/0: d*4\n"},
		{&uneven, "--role=a -n7 x", "a/0: a*4, c*2, d*1\n"},
		/* On the hosts of another, which may be named later. */
		{&six, "--role=j --with=t --ntasks-per-node=1 x : --role=t -N2 x",
		 "j/0: n1*1, n2*1\nt/0: n1*8, n2*8\n"},
		{&six, "--role=t -N3 x : --role=j --with=t -N2 --ntasks-per-node=1 x : --role=k --with=j -n1 x",
		 "t/0: n1*8, n2*8, n3*8\nj/0: n1*1, n2*1\nk/0: n1*1\n"},
		{&six, "--role=t -N2 --replicas=2 x : --role=j --with=t -N1 --replicas=3 --ntasks-per-node=1 x",
		 "t/0: n1*8, n2*8\nt/1: n3*8, n4*8\nj/0: n1*1\nj/1: n2*1\nj/2: n3*1\n"},
		/* Components of a heterogeneous job, in order or by name. */
		{&het, "--role=a x : --role=j --with=a -n1 x : --role=b x", "a/0: a*8, b*8\nj/0: a*1\nb/0: c*1, d*1\n"},
		{&het, "--role=a --het-group=1 -N1 x : --role=b --het-group=0 x", "a/0: c*1\nb/0: a*8, b*8\n"},
		{&het, "--role=a --het-group=0 -N1 x : --role=b --het-group=0 -N1 x", "a/0: a*8\nb/0: b*8\n"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		gives(cases[i].given, cases[i].line, cases[i].want);
}

TEST(too_few_hosts)
{
	static const struct {
		const struct given *given;
		const char *line, *msg;
	} cases[] = {
		{&six, "--role=t -N4 x : --role=r -N2 --replicas=2 x : --role=j --with=t x",
		 "there are 6 hosts with 48 slots (list of hosts), but the roles need 8: t 4, r 2 × 2 = 4"},
		{&six, "--role=t -N6 x : --role=r x", "need 7: t 6, r all others, at least 1"},
		{&six, "--role=t -N5 x : --role=r -n9 x", "need 7: t 5, r 2 (9 ranks, 8 on each)"},
		{&six, "--role=t -N2 x : --role=j --with=t -N3 x",
		 "role j runs with t on 2 hosts with 16 slots, but needs 3: j 3"},
		{&six, "--role=t -N2 x : --role=j --with=t -n3 --ntasks-per-node=1 x",
		 "role j runs with t on 2 hosts with 16 slots, but needs 3: j 3 (3 ranks, 1 on each)"},
		{&six_bind, "--role=a -N1 --ntasks-per-node=12 x",
		 "role a needs 12 ranks on each host, but n1 has 8 slots"},
		{&six_bind, "--role=a -N1 -n12 x", "role a has 12 ranks for 1 hosts, but n1 has 8 slots"},
		{&six, "--role=a -N2 -n9 --ntasks-per-node=5 x : --role=b -N5 x", "there are 6 hosts"},
		{&six, "--role=a x : --role=b -N1 x",
		 "role a does not say how many hosts it needs, and role b comes after it"},
		{&uneven, "--role=a -N1 x : --role=b -n7 x",
		 "there are 3 hosts with 10 slots (list of hosts), but the roles need more: a 1, b those for 7 ranks"},
		{&uneven, "--role=a -N2 x : --role=b --with=a -n7 x",
		 "role b runs with a on 2 hosts with 6 slots, but needs more: b those for 7 ranks"},
		{&het, "--role=a -N3 x", "component 0 of the job has 2 hosts with 16 slots, but roles need 3: a 3"},
		{&het, "--role=a x : --role=b x : --role=c x",
		 "role c is to be in component 2 of the job, which has 2"},
		{&het, "--role=a --het-group=7 x", "role a is to be in component 7 of the job"},
		{&six, "--role=a --het-group=0 x", "role a has --het-group=0, but the job is not a heterogeneous one"},
		{&six, "--role=a -N1 --ntasks-per-node=8192 x : --role=b --with=a -n1 x",
		 "more than 8192 ranks on host n1"},
		{&six, "--role=a --ports=80,81 -N1 x : --role=b --with=a --ports=81 -N1 x",
		 "a/0 and b/0 both listen at port 81 of host n1"},
		{&six, "--role=a x : --role=s --with=a --service --ready=tcp:80 --replicas=2 -n1 x",
		 "s/0 and s/1 both listen at port 80 of host n1"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		refuses(cases[i].given, cases[i].line, cases[i].msg);
	/* On hosts of their own they may. */
	gives(&six, "--role=a -N1 --ntasks-per-node=1 x : --role=s --ports=80 -N2 --ntasks-per-node=1 --replicas=2 x",
	      "a/0: n1*1\ns/0: n2*1, n3*1\ns/1: n4*1, n5*1\n");
}

TEST(cpus_and_gpus)
{
	static const struct {
		const struct given *given;
		const char *line, *want;
	} cases[] = {
		/* Nobody asks: all have all. */
		{&rich, "--role=t -N1 x : --role=j --with=t -n1 x", "t/0: n1*8\nj/0: n1*1\n"},
		{&poor, "--role=t -N1 x : --role=j --with=t -n1 x", "t/0: n1*8\nj/0: n1*1\n"},
		/* Who asks has them alone; the other has the rest. */
		{&rich, "--role=t -N1 --ntasks-per-node=7 x : --role=j --with=t -n1 -c4 --gpus-per-task=1 x",
		 "t/0: n1*7 c4- g1-\nj/0: n1*1 c0-3 g0\n"},
		{&poor, "--role=t -N1 --ntasks-per-node=7 x : --role=j --with=t -n1 -c4 --gpus-per-task=1 x",
		 "t/0: n1*7 c4- g1-\nj/0: n1*1 c0-3 g0\n"},
		{&rich,
		 "--role=t -N1 --ntasks-per-node=7 -c8 --gpus-per-task=1 x : --role=j --with=t -n1 -c8 "
		 "--gpus-per-task=1 x",
		 "t/0: n1*7 c0-55 g0-6\nj/0: n1*1 c56-63 g7\n"},
		/* None are left: of CPUs all are shared, of GPUs none. */
		{&rich, "--role=t -N1 --ntasks-per-node=8 -c8 --gpus-per-task=1 x : --role=j --with=t -n1 x",
		 "t/0: n1*8 c0-63 g0-7\nj/0: n1*1 gnone\n"},
		{&rich, "--role=t -N1 x : --role=j --with=t -n1 --gpus-per-task=0 x", "t/0: n1*8\nj/0: n1*1 gnone\n"},
		/* Replicas, a GPU each. */
		{&rich, "--role=r --replicas=3 -n2 --gpus-per-task=2 x",
		 "r/0: n1*2 g0-3\nr/1: n1*2 g4-7\nr/2: n1*2 g8-11\n"},
	};

	for (size_t i = 0; i + 1 < sizeof(cases) / sizeof(cases[0]); i++)
		gives(cases[i].given, cases[i].line, cases[i].want);
	refuses(&rich, cases[sizeof(cases) / sizeof(cases[0]) - 1].line,
		"host n1 has 8 GPUs, but the roles there ask for 12: r 2 × 2 = 4, r 2 × 2 = 4, r 2 × 2 = 4");
	refuses(&rich, "--role=t -N1 -c8 x : --role=j --with=t -n1 -c 8 x",
		"host n1 has 64 CPUs, but the roles there ask for 72: t 8 × 8 = 64, j 1 × 8 = 8");
	refuses(&poor, "--role=t -N1 --ntasks-per-node=8192 -c1000000 x", "ask for 8192000000");
}

TEST(a_thousand_hosts)
{
	const struct given given = {.hosts = "n[1-1000]:8", .bind = true};
	struct fixture f;
	struct hvd_err err = {0};
	int judges = 0;

	assert_int_equal(assign(&f, &given,
				"--role=trainer -N512 --ntasks-per-node=8 x : --role=rollout --replicas=61 -N8 "
				"--ntasks-per-node=1 x : --role=judge --with=trainer --ntasks-per-node=1 -c2 x",
				&err),
			 0);
	assert_int_equal(f.hosts.n_worlds, 63);
	check_disjoint(&f);
	for (int i = 0; i < 512; i++) {
		assert_int_equal(f.hosts.worlds[0].places[i].host, i);
		judges += f.hosts.worlds[62].places[i].host == i && f.hosts.worlds[62].places[i].share.cpus.n == 2;
	}
	assert_int_equal(judges, 512);
	for (int i = 0; i < 488; i++)
		assert_int_equal(f.hosts.worlds[1 + i / 8].places[i % 8].host, 512 + i);
	clear(&f);
	refuses(&given, "--role=trainer -N512 x : --role=rollout --replicas=62 -N8 x",
		"there are 1000 hosts with 8000 slots (list of hosts), but the roles need 1008: trainer 512, rollout "
		"62 × 8 = 496");
}

static void has(const struct hvd_strv *env, const char *name, const char *value)
{
	const char *is = hvd_env_get(env, name);

	if (!is || !value || strcmp(is, value) != 0)
		if (is || value)
			fail_msg("%s is \"%s\", not \"%s\"", name, is ? is : "(not set)", value ? value : "(not set)");
}

static void address_hosts(struct hvd_addr *addrs, int n)
{
	for (int i = 0; i < n; i++) {
		char text[32];

		snprintf(text, sizeof(text), "10.0.%d.%d", i / 250, i % 250 + 1);
		assert_int_equal(hvd_addr_parse(text, &addrs[i]), 0);
	}
}

/* World, host, local rank and number of the port: 1000, 100, 10, 1. */
static in_port_t a_port(int world, int host, int local_rank, unsigned i, void *arg)
{
	const int *unknown = arg;

	return unknown && host == *unknown ? 0
					   : (in_port_t)(10000 + world * 1000 + host * 100 + local_rank * 10 + (int)i);
}

TEST(ports_of_ranks)
{
	struct hvd_addr addrs[6] = {0};
	struct hvd_role_env env;
	struct hvd_strv to = {0};
	struct fixture f;
	struct hvd_err err = {0};
	int unknown = 3;

	assert_int_equal(
		assign(&f, &six,
		       "--role=a -N1 -n1 x : --role=b --replicas=2 -N2 -n3 --ports=2 x : --role=c --with=a -n2 "
		       "--ports=1 x",
		       &err),
		0);
	hvd_role_env_make(&env, &f.specs, &f.hosts, &f.alloc, addrs, a_port, NULL);
	hvd_role_env_emit(&env, &f.hosts, 0, &to);
	has(&to, "HVD_ROLE_A_PORTS", NULL);
	has(&to, "HVD_ROLE_B_PORTS", "11100,11101,11110,11111,11200,11201;12300,12301,12310,12311,12400,12401");
	has(&to, "HVD_ROLE_C_PORTS", "13000,13010");
	has(&to, "HVD_PORTS", NULL);
	hvd_strv_free(&to);
	hvd_role_env_clear(&env);
	hvd_role_env_make(&env, &f.specs, &f.hosts, &f.alloc, addrs, a_port, &unknown);
	hvd_role_env_emit(&env, &f.hosts, 1, &to);
	has(&to, "HVD_ROLE_B_PORTS", NULL);
	has(&to, "HVD_ROLE_C_PORTS", "13000,13010");
	has(&to, "HVD_PORTS", NULL);
	hvd_strv_free(&to);
	hvd_role_env_clear(&env);
	assert_int_equal(hvd_role_world_most(&f.hosts.worlds[1]), 2);
	clear(&f);
	refuses(&six, "--role=a -N1 -n65 --ports=64 x",
		"a host would have to reserve 4160 ports for the ranks of all roles (--ports), more than 4096");
}

TEST(variables_of_roles)
{
	struct hvd_addr addrs[6];
	struct hvd_role_env env;
	struct hvd_strv to = {0};
	struct fixture f;
	struct hvd_err err = {0};

	assert_int_equal(assign(&f, &six,
				"--role=trainer -N2 x : --role=roll-out --replicas=2 -N2 --ntasks-per-node=1 --service "
				"--ready=http:8000 x : --role=judge --with=trainer -n1 --ports=9000,9001 x",
				&err),
			 0);
	address_hosts(addrs, 6);
	assert_int_equal(hvd_addr_parse("fd00::1", &addrs[3]), 0);
	hvd_role_env_make(&env, &f.specs, &f.hosts, &f.alloc, addrs, a_port, NULL);
	hvd_role_env_emit(&env, &f.hosts, 2, &to);
	has(&to, "HVD_ROLE", "roll-out");
	has(&to, "HVD_ROLE_REPLICA", "1");
	has(&to, "HVD_ROLES", "trainer,roll-out,judge");
	has(&to, "HVD_ROLE_TRAINER_HOSTS", "n1,n2");
	has(&to, "HVD_ROLE_TRAINER_ADDRS", "10.0.0.1,10.0.0.2");
	has(&to, "HVD_ROLE_TRAINER_SIZE", "16");
	has(&to, "HVD_ROLE_TRAINER_PORTS", NULL);
	has(&to, "HVD_ROLE_ROLL_OUT_HOSTS", "n3,n4;n5,n6");
	has(&to, "HVD_ROLE_ROLL_OUT_ADDRS", "10.0.0.3,fd00::1;10.0.0.5,10.0.0.6");
	has(&to, "HVD_ROLE_ROLL_OUT_SIZE", "2;2");
	has(&to, "HVD_ROLE_ROLL_OUT_PORTS", "8000");
	has(&to, "HVD_ROLE_JUDGE_HOSTS", "n1");
	has(&to, "HVD_ROLE_JUDGE_PORTS", "9000,9001");
	assert_int_equal(to.n, 3 + 1 + 3 + 4 + 4);
	hvd_strv_free(&to);
	hvd_role_env_emit(&env, &f.hosts, 3, &to);
	has(&to, "HVD_ROLE", "judge");
	has(&to, "HVD_ROLE_REPLICA", "0");
	has(&to, "HVD_PORTS", "9000,9001");
	hvd_strv_free(&to);
	hvd_role_env_clear(&env);

	/* Half a list is worse than none. */
	addrs[5] = (struct hvd_addr){0};
	hvd_role_env_make(&env, &f.specs, &f.hosts, &f.alloc, addrs, a_port, NULL);
	hvd_role_env_emit(&env, &f.hosts, 0, &to);
	has(&to, "HVD_ROLE_ROLL_OUT_ADDRS", NULL);
	has(&to, "HVD_ROLE_ROLL_OUT_HOSTS", "n3,n4;n5,n6");
	has(&to, "HVD_ROLE_TRAINER_ADDRS", "10.0.0.1,10.0.0.2");
	hvd_strv_free(&to);
	hvd_role_env_clear(&env);
	clear(&f);
}

/* No process could be started with a variable of 128 KiB. */
TEST(variables_of_ten_thousand_hosts)
{
	const struct given given = {.hosts = "n[10001-20000]:1"};
	struct hvd_addr *addrs = hvd_xcalloc(10000, sizeof(*addrs));
	struct hvd_role_env env;
	struct hvd_strv to = {0};
	struct fixture f;
	struct hvd_err err = {0};

	assert_int_equal(assign(&f, &given, "--role=a -N9000 x : --role=b x", &err), 0);
	address_hosts(addrs, 10000);
	hvd_role_env_make(&env, &f.specs, &f.hosts, &f.alloc, addrs, a_port, NULL);
	hvd_role_env_emit(&env, &f.hosts, 0, &to);
	has(&to, "HVD_ROLE_A_ADDRS", NULL);
	has(&to, "HVD_ROLE_A_SIZE", "9000");
	assert_int_equal(strlen(hvd_env_get(&to, "HVD_ROLE_A_HOSTS")), 9000 * 7 - 1);
	assert_int_equal(strlen(hvd_env_get(&to, "HVD_ROLE_B_HOSTS")), 1000 * 7 - 1);
	hvd_strv_free(&to);
	hvd_role_env_clear(&env);
	clear(&f);
	free(addrs);
}

RUN_TESTS()
