/* SPDX-License-Identifier: Apache-2.0 */
/* Roles of a launch, from a command line and from a file. */
#include "launcher/options/options.h"
#include "launcher/options/role_specs.h"
#include "options_lines.h"

/* With a text, `line` has --roles=FILE, and this is the text of the file. */
static int load(struct hvd_role_specs *specs, const char *line, const char *text, char *const *envp,
		struct hvd_err *err)
{
	struct hvd_strv argv = {0};
	int rc;

	*err = (struct hvd_err){0};
	split(line, &argv);
	rc = text ? hvd_role_specs_parse(specs, (int)argv.n, argv.v, envp, text, strlen(text), err)
		  : hvd_role_specs_load(specs, (int)argv.n, argv.v, envp, err);
	hvd_strv_free(&argv);
	return rc;
}

static void roles(struct hvd_role_specs *specs, const char *line, const char *text)
{
	struct hvd_err err;

	if (load(specs, line, text, NULL, &err) != 0)
		fail_msg("%s: %s", line, err.msg);
}

static void bad(const char *line, const char *text, const char *msg, const char *hint)
{
	struct hvd_role_specs specs;
	struct hvd_err err;

	if (load(&specs, line, text, NULL, &err) == 0)
		fail_msg("accepted: %s", line);
	if (!strstr(err.msg, msg) || !strstr(err.hint, hint))
		fail_msg("%s: \"%s\" (%s) does not say \"%s\" (%s)", line, err.msg, err.hint, msg, hint);
	assert_int_equal(err.code, HVD_E_USAGE);
	assert_int_equal(hvd_err_status(&err), 2);
	assert_int_equal(specs.n, 0);
}

/* The command of a role, with blanks between its words. */
static char *command_of(const struct hvd_role_spec *role)
{
	return hvd_shell_join(role->spec.command);
}

static const char three[] =
	"hvdrun --events=e --role=trainer -N4 --ntasks-per-node=8 --after=rollout python train.py : "
	"--role=rollout -N2 --ntasks-per-node=1 --replicas=2 --service --ready=http:8000/health ./serve "
	"-x : --role=judge --with=trainer --ntasks-per-node=1 -c 4 --gpus-per-task=a100:1 --service "
	"--ready=tcp:9000 --max-restarts=7 ./judge";

static const char three_in_a_file[] = "events: e\n"
				      "roles:\n"
				      "  trainer:\n"
				      "    nodes: 4\n"
				      "    ntasks-per-node: 8\n"
				      "    after: [rollout]\n"
				      "    command: python train.py\n"
				      "  rollout: {nodes: 2, ntasks-per-node: 1, replicas: 2, service: yes,\n"
				      "            ready: 'http:8000/health', command: [./serve, -x]}\n"
				      "  judge:\n"
				      "    with: trainer\n"
				      "    ntasks-per-node: 1\n"
				      "    cpus-per-task: 4\n"
				      "    gpus-per-task: a100:1\n"
				      "    service: true\n"
				      "    keep-going: no\n"
				      "    ready: tcp:9000\n"
				      "    max-restarts: 7\n"
				      "    command: ./judge\n";

static void check_three(const char *line, const char *text)
{
	struct hvd_role_specs specs;
	const struct hvd_role_spec *role;

	roles(&specs, line, text);
	assert_int_equal(specs.n, 3);
	assert_int_equal(hvd_role_worlds(&specs), 4);
	assert_int_equal(hvd_role_find(&specs, "judge"), 2);
	assert_int_equal(hvd_role_find(&specs, "judg"), -1);
	for (size_t i = 0; i < 3; i++)
		assert_string_equal(specs.v[i].spec.events, "e");

	role = &specs.v[0];
	assert_string_equal(role->name, "trainer");
	assert_text(command_of(role), "python train.py");
	assert_int_equal(role->hosts, 4);
	assert_int_equal(role->per_host, 8);
	assert_int_equal(role->after, 2);
	assert_int_equal(role->with, -1);
	assert_int_equal(hvd_role_n_hosts(role, 0), 4);
	assert_int_equal(role->cpus, 0);
	assert_int_equal(role->gpus, -1);
	assert_int_equal(role->on_failure, HVD_FAILURE_ENDS);
	assert_int_equal(role->spec.max_restarts, 0);
	assert_false(role->service);
	assert_true(role->spec.elastic.on);
	/* Any launcher can start so many ranks on so many hosts; in Slurm it is srun. */
	assert_null(role->spec.srun.only_option);
	assert_non_null(role->spec.srun.any_option);

	role = &specs.v[1];
	assert_text(command_of(role), "./serve -x");
	assert_int_equal(role->hosts, 2);
	assert_int_equal(role->replicas, 2);
	assert_int_equal(hvd_role_n_hosts(role, 0), 4);
	assert_true(role->service);
	assert_int_equal(role->ready.kind, HVD_READY_HTTP);
	assert_int_equal(role->ready.port, 8000);
	assert_string_equal(role->ready.path, "/health");
	assert_true(role->ready.timeout == 600);
	assert_int_equal(role->n_ports, 1);
	assert_int_equal(role->ports[0], 8000);
	assert_int_equal(role->on_failure, HVD_FAILURE_ENDS);
	assert_int_equal(role->spec.max_restarts, 0);
	assert_true(role->spec.elastic.on);

	role = &specs.v[2];
	assert_text(command_of(role), "./judge");
	assert_int_equal(role->with, 0);
	assert_int_equal(hvd_role_base(&specs, 2), 0);
	assert_int_equal(role->hosts, 0);
	assert_int_equal(hvd_role_n_hosts(role, 8), 0);
	assert_int_equal(role->cpus, 4);
	assert_int_equal(role->gpus, 1);
	assert_int_equal(role->ready.kind, HVD_READY_TCP);
	assert_null(role->ready.path);
	assert_int_equal(role->spec.max_restarts, 7);
	assert_int_equal(role->on_failure, HVD_FAILURE_RESTARTS);
	hvd_role_specs_clear(&specs);
}

TEST(three_roles_of_a_command_line_and_of_a_file)
{
	check_three(three, NULL);
	check_three("hvdrun --roles=r.yaml", three_in_a_file);
	/* The command line wins over the file. */
	check_three("hvdrun --events=e --roles=r.yaml", three_in_a_file);
}

TEST(options_of_the_launch_are_those_of_all_roles)
{
	struct hvd_role_specs specs;

	/* -On2: a letter of the launch, and one of the role. */
	roles(&specs, "hvdrun -v -On2 --kill-wait 7 --role a -J name x : --role=b -n3 -- y : --role=c -n 4 z", NULL);
	assert_int_equal(specs.n, 3);
	for (int i = 0; i < 3; i++) {
		assert_true(specs.v[i].spec.kill_wait == 7);
		assert_true(specs.v[i].spec.srun.overcommit);
		assert_int_equal(specs.v[i].options->verbose, 1);
		assert_int_equal(specs.v[i].spec.ranks.n, i + 2);
		assert_int_equal(specs.v[i].spec.output.label, HVD_LABEL_SRUN);
	}
	assert_words(&specs.v[2].spec.srun.args, "-v -O -J name -n 4");
	hvd_role_specs_clear(&specs);
}

/* They describe the job, not one of its roles. */
TEST(numbers_of_a_batch_job_are_not_those_of_a_role)
{
	struct hvd_strv env = {0};
	struct hvd_role_specs specs;
	struct hvd_err err;

	split("SLURM_NTASKS=9 SLURM_JOB_NUM_NODES=3 SLURM_NTASKS_PER_NODE=3 SLURM_CPUS_PER_TASK=2 "
	      "SLURM_GPUS_PER_TASK=1 "
	      "HVD_MAX_RESTARTS=5",
	      &env);
	assert_int_equal(load(&specs, "hvdrun --role=a x : --role=b --on-failure=end y", NULL, env.v, &err), 0);
	hvd_strv_free(&env);
	assert_int_equal(specs.v[0].spec.ranks.n, 0);
	assert_int_equal(specs.v[0].spec.elastic.min_np, 0);
	assert_int_equal(specs.v[0].hosts, 0);
	assert_int_equal(specs.v[0].per_host, 0);
	assert_int_equal(specs.v[0].cpus, 0);
	assert_int_equal(specs.v[0].gpus, -1);
	/* But it sets defaults of each. */
	assert_int_equal(specs.v[0].spec.max_restarts, 5);
	assert_int_equal(specs.v[0].on_failure, HVD_FAILURE_RESTARTS);
	assert_int_equal(specs.v[1].spec.max_restarts, 0);
	assert_int_equal(specs.v[1].on_failure, HVD_FAILURE_ENDS);
	hvd_role_specs_clear(&specs);
}

static bool wanted(const char *line)
{
	struct hvd_strv argv = {0};
	bool is;

	split(line, &argv);
	is = hvd_role_specs_wanted((int)argv.n, argv.v);
	hvd_strv_free(&argv);
	return is;
}

TEST(which_command_lines_have_roles)
{
	assert_true(wanted(three));
	assert_true(wanted("hvdrun --roles=f"));
	assert_true(wanted("hvdrun -n2 x : --role=b y"));
	assert_true(wanted("hvdrun --replicas=2 x"));
	assert_true(wanted("hvdrun --service -n2 x"));
	assert_true(wanted("hvdrun -n2 --role=a x"));
	assert_false(wanted("hvdrun -n2 x : -n3 y"));
	assert_false(wanted("hvdrun -n2 x --role=a"));
	assert_false(wanted("hvdrun --role=a --help"));
	assert_false(wanted("hvdrun"));
}

TEST(how_a_role_fails)
{
	static const struct {
		const char *options;
		enum hvd_on_failure on_failure;
		int restarts;
	} cases[] = {
		{"", HVD_FAILURE_ENDS, 0},
		{"--max-restarts=2", HVD_FAILURE_RESTARTS, 2},
		{"--max-restarts=0", HVD_FAILURE_ENDS, 0},
		{"--on-failure=restart", HVD_FAILURE_RESTARTS, 3},
		{"--on-failure=ignore", HVD_FAILURE_IGNORED, 0},
		{"--on-failure=ignore --max-restarts=2", HVD_FAILURE_IGNORED, 2},
		{"--service", HVD_FAILURE_ENDS, 0},
		{"--service --max-restarts=0", HVD_FAILURE_ENDS, 0},
		{"--service --on-failure=end", HVD_FAILURE_ENDS, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *line = hvd_xasprintf("hvdrun --role=a x : --role=b %s y", cases[i].options);
		struct hvd_role_specs specs;

		roles(&specs, line, NULL);
		assert_int_equal(specs.v[1].on_failure, cases[i].on_failure);
		assert_int_equal(specs.v[1].spec.max_restarts, cases[i].restarts);
		hvd_role_specs_clear(&specs);
		free(line);
	}
	bad("hvdrun --role=a --on-failure=end --max-restarts=1 x", NULL,
	    "role a: --on-failure=end and --max-restarts=1", "leave one");
	bad("hvdrun --role=a --on-failure=restart --max-restarts=0 x", NULL, "contradict", "leave one");
	bad("hvdrun --role=a --on-failure=no x", NULL, "--on-failure", "");
}

TEST(colons)
{
	bad("hvdrun --role=a x :", NULL, "behind colon number 1 has no command", "write it after the options");
	bad("hvdrun --role=a : --role=b y", NULL, "in front of the first colon has no command", "write it");
	bad("hvdrun --role=a -- : --role=b y", NULL, "in front of the first colon has no command", "write it");
	bad("hvdrun --role=a x : --role=b : --role=c z", NULL, "behind colon number 1 has no command", "write it");
	bad("hvdrun -n2 x : --role=b y", NULL, "in front of the first colon has no --role=NAME", "name each role");
	bad("hvdrun --service -n2 x", NULL, "in front of the first colon has no --role=NAME", "name each role");
	bad("hvdrun --role=a x : -n2 y", NULL, "behind colon number 1 has no --role=NAME", "a script");
	bad("hvdrun --role=a x : : --role=b y", NULL, "behind colon number 1 has no command", "write it");
	bad("hvdrun --role=a --role=b x", NULL, "has two --role", "a colon between");
}

TEST(whose_option_it_is)
{
	bad("hvdrun --role=a x : --role=b --metrics=9400 y", NULL, "option --metrics belongs to the launch",
	    "in front of the first colon");
	bad("hvdrun --role=a x : --role=b -w n1 y", NULL, "option -w belongs to the launch", "in front of");
	bad("hvdrun --role=a x : --role=b --help y", NULL, "option --help belongs to the launch", "in front of");
	bad("hvdrun --role=a x : --role=b --roles=f y", NULL, "option --roles belongs to the launch", "");
	bad("hvdrun --role=a x : --role=b --replicaz=2 y", NULL, "unknown option --replicaz of a role", "");
	bad("hvdrun --role=a x : --role=b --nproc_per_node=2 y", NULL, "--nproc_per_node is an option of torchrun", "");
	bad("hvdrun --role=a x : --role=b --ntasks=x x", NULL, "role b: option --ntasks: \"x\"", "");
	bad("hvdrun --role=a --kill-wait=x x", NULL, "option --kill-wait: \"x\"", "");
}

TEST(rules_between_roles)
{
	bad("hvdrun --role=a x : --role=a y", NULL, "two roles are named a", "a name of its own");
	bad("hvdrun --role=a-b x : --role=a_b y", NULL, "the roles a-b and a_b have the same variables", "");
	bad("hvdrun --role=A x", NULL, "\"A\" is not a name of a role", "--role=trainer");
	bad("hvdrun --role=1a x", NULL, "\"1a\" is not a name", "");
	bad("hvdrun --role=a.b x", NULL, "\"a.b\" is not a name", "");
	bad("hvdrun --role=a23456789012345678901234567890123 x", NULL, "is not a name", "at most 32");
	bad("hvdrun --role=a --after=c x : --role=b y", NULL, "role a: there is no role \"c\" (--after)",
	    "the roles are a, b");
	bad("hvdrun --role=a x : --role=b --with=c y", NULL, "role b: there is no role \"c\" (--with)",
	    "the roles are");
	bad("hvdrun --role=a --after=a x", NULL, "--after goes round in a circle: a after a", "leave out one --after");
	bad("hvdrun --role=z --after=a x : --role=a --after=b x : --role=b --after=c,d y : --role=c z : --role=d "
	    "--after=a z",
	    NULL, "in a circle: a after b after d after a", "leave out one --after");
	bad("hvdrun --role=a --with=b x : --role=b --with=a y", NULL, "--with goes round in a circle: a with b with a",
	    "");
	bad("hvdrun --role=a --service x : --role=b --service y", NULL, "all roles are services",
	    "leave out --service");
	bad("hvdrun --role=a --replicas=32 -n1 x : --role=b --replicas=32 -n1 y", NULL, "replicas are 64, more than 63",
	    "lower --replicas");
	bad("hvdrun --role=a --replicas=64 x", NULL, "--replicas", "");
	bad("hvdrun --role=a --replicas=2 x", NULL, "role a has 2 replicas, but not the size of one", "add -N or -n");
	bad("hvdrun --role=a -N3 -n2 x", NULL, "fewer ranks, 2, than hosts, 3", "raise -n");
	bad("hvdrun --role=a -N2 -n9 --ntasks-per-node=4 x", NULL, "more ranks, 9, than 2 hosts with 4", "");
	bad("hvdrun --role=a x : --role=b --with=a --het-group=1 y", NULL, "--with and --het-group", "");
}

TEST(more_roles_than_worlds)
{
	char *line = hvd_xstrdup("hvdrun --role=r x"), *text = hvd_xstrdup("roles:\n");

	for (int i = 1; i <= 64; i++) {
		hvd_xappendf(&line, " : --role=r%d x", i);
		hvd_xappendf(&text, "  r%d: {command: x}\n", i);
	}
	bad(line, NULL, "65 roles are more than 63", "by a launch of their own");
	hvd_xappendf(&text, "  r: {command: x}\n");
	bad("hvdrun --roles=f", text, "65 roles are more than 63", "");
	free(line);
	free(text);
}

/* What is asked is the same by a file. */
static void ready(const char *when, enum hvd_ready_kind kind, int port, const char *path)
{
	char line[128], text[128];
	struct hvd_role_specs specs;

	snprintf(line, sizeof(line), "hvdrun --role=a --ready-timeout=9 --ready=%s x", when);
	snprintf(text, sizeof(text), "roles: {a: {command: x, ready-timeout: 9, ready: '%s'}}", when);
	for (int i = 0; i < 2; i++) {
		const struct hvd_ready_spec *spec;

		roles(&specs, i ? "hvdrun --roles=f" : line, i ? text : NULL);
		spec = &specs.v[0].ready;
		assert_int_equal(spec->kind, kind);
		assert_int_equal(spec->port, port);
		assert_string_equal(spec->path ? spec->path : "", path);
		assert_string_equal(spec->text, when);
		assert_true(spec->timeout == 9);
		assert_int_equal(specs.v[0].n_ports, port != 0);
		hvd_role_specs_clear(&specs);
	}
}

TEST(when_a_role_is_ready)
{
	ready("started", HVD_READY_STARTED, 0, "");
	ready("tcp:65535", HVD_READY_TCP, 65535, "");
	ready("http:80", HVD_READY_HTTP, 80, "/");
	ready("http:8000/health?x=1", HVD_READY_HTTP, 8000, "/health?x=1");
	ready("file:out/ready", HVD_READY_FILE, 0, "out/ready");
	ready("notify", HVD_READY_NOTIFY, 0, "");
}

TEST(values_of_options)
{
	bad("hvdrun --role=a x : --role=b -N2-4 y", NULL, "role b: the number of hosts of a role is one number", "-N4");
	bad("hvdrun --role=a -N0 x", NULL, "role a: the number of hosts", "");
	bad("hvdrun --role=a --ntasks-per-node=9000 x", NULL, "9000 ranks are more than a host can have",
	    "at most 8192");
	bad("hvdrun --role=a --gpus-per-task=many x", NULL, "--gpus-per-task=many is not", "");
	bad("hvdrun --role=a --het-group=0,1 x", NULL, "--het-group=0,1 is not one component", "--het-group=0");
	bad("hvdrun --role=a --ports=80,x x", NULL, "--ports: \"x\" is not a port", "at most 64 numbers of ports");
	bad("hvdrun --role=a x : --role=b --ready=tcp:0 y", NULL, "role b: --ready: \"tcp:0\" is none of tcp:PORT, ",
	    "as in tcp:9000");
	bad("hvdrun --role=a x : --role=b --ready=tcp:80/x y", NULL, "\"tcp:80/x\" is none of", "");
	bad("hvdrun --role=a x : --role=b --ready=http:80x y", NULL, "is none of", "");
	bad("hvdrun --role=a x : --role=b --ready=udp:80 y", NULL, "is none of", "");
	bad("hvdrun --role=a x : --role=b --ready=file: y", NULL, "is none of", "");
	bad("hvdrun --role=a x : --role=b --ready=notify:1 y", NULL, "is none of", "");
	bad("hvdrun --roles=f", "roles: {a: {command: x}, b: {service: 1, ready: \"http:80/a\\r\\nX\", command: y}}",
	    "is none of tcp:PORT", "");
}

TEST(ports_and_how_many)
{
	struct hvd_role_specs specs;

	roles(&specs,
	      "hvdrun --role=a --ports=2 x : --role=b --ports=64 x : --role=c --ports=65 x : --role=d --ports=1,2 x : "
	      "--role=e --service --ready=tcp:80 --ports=1 x : --role=f x",
	      NULL);
	assert_int_equal(specs.v[0].ports_each, 2);
	assert_int_equal(specs.v[0].n_ports, 0);
	assert_int_equal(specs.v[1].ports_each, 64);
	assert_int_equal(specs.v[2].ports_each, 0);
	assert_int_equal(specs.v[2].ports[0], 65);
	assert_int_equal(specs.v[3].ports_each, 0);
	assert_int_equal(specs.v[3].n_ports, 2);
	assert_int_equal(specs.v[4].ports_each, 1);
	assert_int_equal(specs.v[4].n_ports, 0);
	assert_int_equal(specs.v[5].ports_each, 0);
	hvd_role_specs_clear(&specs);
	bad("hvdrun --role=a --ports=0 x", NULL, "--ports: \"0\" is not a port", "how many free ports each rank needs");
}

TEST(what_only_one_command_can_do)
{
	bad("hvdrun --role=a --mpi x", NULL, "the MPI controller (--mpi, --jsrun) cannot be used with roles",
	    "leave it out");
	bad("hvdrun --jsrun --role=a x", NULL, "the MPI controller", "");
	bad("hvdrun --launcher=mpirun --role=a x", NULL, "--launcher=mpirun cannot be used with roles", "");
	bad("hvdrun --launcher=jsrun --role=a x", NULL, "--launcher=jsrun cannot be used with roles", "");
	bad("hvdrun --launcher=join --join-file=f --role=a x", NULL, "--launcher=join cannot be used with roles", "");
	bad("hvdrun --run-func=f --results=r --role=a x", NULL, "--run-func cannot be used with roles", "");
	bad("hvdrun --selftest --role=a x", NULL, "--selftest cannot be used with roles", "");
	bad("hvdrun --min-np=2 --role=a x", NULL, "Horovod's kind of elastic job", "");
	bad("hvdrun --discover=slurm --role=a x", NULL, "discovery of hosts cannot", "");
}

TEST(files)
{
	static const struct {
		const char *text, *msg, *hint;
	} cases[] = {
		{"", "f: the file must be a map", ""},
		{"[a]", "f: the file must be a map", ""},
		{"roles: {}", "f: the file has no roles", ""},
		{"events: e", "f: the file has no roles", ""},
		{"roles: [a, b]", "f:1: \"roles\" must be a map", ""},
		{"roles:\n  a: python", "f:2: a role must be a name with a map", ""},
		{"roles:\n  a: {nodes: 2}", "f:2: the role has no command", "command: [python, train.py]"},
		{"roles:\n  a: {command: []}", "f:2: the command is empty", ""},
		{"roles:\n  a: {command: ''}", "f:2: the command is empty", ""},
		{"roles:\n  a: {command: \"x 'y\"}", "f:2: a quote in the command is not closed", ""},
		{"roles:\n  a: {command: [[x]]}", "f:2: a command must be a list of plain words", ""},
		{"roles:\n  a: {command: {x: y}}", "f:2: a command must be a text or a list", ""},
		{"roles:\n  a: {command: x, command: y}", "f:2: the role has a second command", ""},
		{"roles:\n  a:\n    command: x\n    node: 2", "f:4: there is no setting \"node\" of a role",
		 "did you mean nodes"},
		{"roles:\n  a:\n    command: x\n    nodes: two", "f:4: setting nodes: \"two\" is not a number of nodes",
		 ""},
		{"roles:\n  a:\n    command: x\n    service: maybe", "f:4: the value is neither yes nor no", ""},
		{"roles:\n  a:\n    command: x\n    metrics: 1", "f:4: metrics belongs to the launch",
		 "beside \"roles\""},
		{"roles:\n  a:\n    command: x\n    role: b", "f:4: there is no setting \"role\"", ""},
		{"roles:\n  a:\n    command: x\n    help: all", "f:4: there is no setting \"help\"", ""},
		{"roles:\n  a:\n    command: x\n    after: [[b]]", "f:4: a value must be plain", ""},
		{"nodes: 2\nroles:\n  a: {command: x}", "f:1: nodes belongs to a role", "into each role"},
		{"roles:\n  a: {command: x}\nroles:\n  a: {command: x}", "two roles are named a", ""},
		{"roles:\n  a: {command: x}\n  a: {command: y}", "two roles are named a", ""},
		{"roles:\n  A: {command: x}", "f:2: \"A\" is not a name of a role", ""},
		{"roles:\n  a: {command: x}\n  b: {command: y, with: c}", "role b: there is no role \"c\"", ""},
		{"roles:\n  ? [a]\n  : {command: x}", "f:2: a role must be a name", ""},
		{"roles: {a: {command: x}", "not valid YAML", ""},
		{"roles: {a: {command: x, nodes: [[[[[[[[[1]]]]]]]]]}}", "cannot be nested any deeper", ""},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		bad("hvdrun --roles=f", cases[i].text, cases[i].msg, cases[i].hint);
	bad("hvdrun --roles=f x", "roles: {a: {command: x}}",
	    "--roles=f has the commands of all roles, but there is a command", "leave out the command");
	bad("hvdrun --roles=f -n2", "roles: {a: {command: x}}", "option -n2 belongs to a role", "into the file");
	bad("hvdrun --roles=/nowhere/f", NULL, "/nowhere/f", "");
}

/* Only a file can have them. */
TEST(words_of_commands_in_a_file)
{
	struct hvd_role_specs specs;

	roles(&specs, "hvdrun --roles=f", "roles:\n  a: {command: [sh, -c, 'x : y', ':', --role=b, '']}\n");
	assert_int_equal(specs.n, 1);
	assert_text(command_of(&specs.v[0]), "sh -c 'x : y' : --role=b ''");
	hvd_role_specs_clear(&specs);
	roles(&specs, "hvdrun --roles=f", "roles:\n  a: {command: \"sh -c 'x y' \\\"z\\\"\"}\n");
	assert_text(command_of(&specs.v[0]), "sh -c 'x y' z");
	hvd_role_specs_clear(&specs);
}

#define HVD_RAY HVD_LIBEXECDIR "/ray/hvd_ray.py "

/* --ray is roles that the tables read like those of a user. */
TEST(ray_is_two_roles)
{
	static const char *const line[] = {"hvdrun", "--ray", "x", NULL};
	struct hvd_role_specs specs;
	const struct hvd_role_spec *ray, *driver;

	assert_true(hvd_role_specs_wanted(3, (char *const *)line));
	roles(&specs,
	      "hvdrun -N4 -lc8 --ray=--num-cpus=2 --events=e --max-restarts=2 --gpus-per-task=1 --ready-timeout=9 "
	      "venv/bin/python3.11 d.py -n",
	      NULL);
	assert_int_equal(specs.n, 2);
	ray = &specs.v[0];
	driver = &specs.v[1];
	assert_string_equal(ray->name, "ray");
	assert_int_equal(ray->hosts, 4);
	assert_int_equal(ray->per_host, 1);
	assert_int_equal(ray->cpus, 8);
	assert_int_equal(ray->gpus, 1);
	assert_true(ray->service);
	assert_int_equal(ray->on_failure, HVD_FAILURE_ENDS);
	assert_text(command_of(ray), "venv/bin/python3.11 " HVD_RAY "host --num-cpus=2");
	assert_string_equal(driver->name, "driver");
	assert_int_equal(driver->with, 0);
	assert_int_equal(driver->after, 1);
	assert_int_equal(driver->spec.ranks.n, 1);
	assert_int_equal(driver->cpus, 0);
	assert_int_equal(driver->on_failure, HVD_FAILURE_RESTARTS);
	assert_int_equal(driver->spec.max_restarts, 2);
	assert_false(driver->service);
	assert_text(command_of(driver), "venv/bin/python3.11 " HVD_RAY "run venv/bin/python3.11 d.py -n");
	for (size_t i = 0; i < 2; i++) {
		assert_true(specs.v[i].spec.srun.handles_output);
		assert_string_equal(specs.v[i].spec.events, "e");
	}
	hvd_role_specs_clear(&specs);
	roles(&specs, "hvdrun --ray sh -c x", NULL);
	assert_text(command_of(&specs.v[0]), "python3 " HVD_RAY "host");
	hvd_role_specs_clear(&specs);
}

TEST(what_ray_refuses)
{
	bad("hvdrun --ray", NULL, "--ray is for one command, and there is none", "hvdrun --ray -N4 python");
	bad("hvdrun --ray x : --role=a y", NULL, "--ray is for one command, not for roles", "");
	bad("hvdrun --role=a x : --ray --role=b y", NULL, "--ray is for one command, not for roles", "");
	bad("hvdrun --ray --roles=f", "roles: {a: {command: x}}", "--ray is for one command, not for roles of a file",
	    "");
	bad("hvdrun --roles=f", "roles: {a: {command: x, ray: y}}", "--ray is for one command", "");
	bad("hvdrun --ray -n4 x", NULL, "-n cannot be used with --ray", "-N is the number of hosts");
	bad("hvdrun --ray --ntasks-per-node=2 x", NULL, "--ntasks-per-node cannot be used with --ray", "");
	bad("hvdrun --ray --role=a x", NULL, "--role cannot be used with --ray", "makes the roles itself");
	bad("hvdrun --ray --service x", NULL, "--service cannot be used with --ray", "makes the roles itself");
	bad("hvdrun --ray=--head x", NULL, "--ray=--head: --head is what the launch decides", "leave it out");
	bad("hvdrun --ray=--address=h:1 x", NULL, "--address is what the launch decides", "");
	bad("hvdrun --ray='--num-cpus=1 x", NULL, "has a quote that is not closed", "");
}

RUN_TESTS()
