/* SPDX-License-Identifier: Apache-2.0 */
/* What a command's words and files show: which PyTorch its own Python would find, and whether it runs torchrun. */
#include "lib/base/strv.h"
#include "lib/base/xalloc.h"
#include "lib/frameworks/command_facts.h"

#include "tests/unit/unit.h"

#include <errno.h>
#include <sys/stat.h>

static char root[] = "/tmp/hvd-torch.XXXXXX";
static struct hvd_strv env;

static void make_dirs(const char *path)
{
	char *copy = hvd_xstrdup(path);

	for (char *slash = strchr(copy + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		assert_true(mkdir(copy, 0755) == 0 || errno == EEXIST);
		*slash = '/';
	}
	free(copy);
}

static char *in_root(const char *name)
{
	return hvd_xasprintf("%s/%s", root, name);
}

static void put(const char *name, const char *text, int mode)
{
	char *path = in_root(name);
	FILE *f;

	make_dirs(path);
	f = fopen(path, "w");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(chmod(path, (mode_t)mode), 0);
	free(path);
}

static void put_torch(const char *folder, const char *version)
{
	char *name = hvd_xasprintf("%s/torch/version.py", folder);
	char *text = hvd_xasprintf("from typing import Optional\n\n__version__ = '%s'\n", version);

	put(name, text, 0644);
	free(name);
	free(text);
}

static void put_link(const char *name, const char *to)
{
	char *path = in_root(name), *target = in_root(to);

	make_dirs(path);
	assert_int_equal(symlink(target, path), 0);
	free(path);
	free(target);
}

static void set(const char *name, const char *below)
{
	char *path = in_root(below);

	hvd_env_set(&env, name, path);
	free(path);
}

/* A system's Python with an old PyTorch, and a venv with a new one. */
static void setup(void)
{
	strcpy(strrchr(root, '.'), ".XXXXXX");
	assert_non_null(mkdtemp(root));
	put("usr/bin/python3.11", "", 0755);
	put_link("usr/bin/python3", "usr/bin/python3.11");
	put_torch("usr/lib/python3/dist-packages", "2.4.1");
	put_link("venv/bin/python", "usr/bin/python3");
	put("venv/pyvenv.cfg", "home = /usr/bin\ninclude-system-site-packages = false\n", 0644);
	put_torch("venv/lib/python3.11/site-packages", "2.13.0+cpu");
	hvd_strv_free(&env);
	set("PATH", "usr/bin");
}

static void teardown(void)
{
	char *command = hvd_xasprintf("rm -rf '%s'", root);

	assert_int_equal(system(command), 0);
	free(command);
	hvd_strv_free(&env);
}

static void is(const char *command, unsigned version)
{
	char *argv[] = {(char *)command, NULL};

	assert_int_equal(hvd_command_facts(command ? argv : NULL, env.v).torch, version);
}

static void is_below(const char *name, unsigned version)
{
	char *path = in_root(name);

	is(path, version);
	free(path);
}

TEST(the_python_of_the_command)
{
	setup();
	is("python3", HVD_TORCH(2, 4));
	is(NULL, HVD_TORCH(2, 4));
	is("python3.11", HVD_TORCH(2, 4));
	is_below("venv/bin/python", HVD_TORCH(2, 13));
	is_below("usr/bin/python3", HVD_TORCH(2, 4));
	is_below("none/bin/python3", 0);
	set("VIRTUAL_ENV", "venv");
	is("bash", HVD_TORCH(2, 13));
	is("apptainer", 0);
	is("/opt/bin/singularity", 0);
	teardown();
}

TEST(scripts)
{
	char *line;

	setup();
	line = hvd_xasprintf("#!%s/venv/bin/python\nimport re\n", root);
	put("venv/bin/torchrun", line, 0755);
	free(line);
	is_below("venv/bin/torchrun", HVD_TORCH(2, 13));
	line = hvd_xasprintf("#!/bin/sh\n'''exec' \"%s/venv/bin/python\" \"$0\" \"$@\"\n' '''\n", root);
	put("venv/bin/accelerate", line, 0755);
	free(line);
	set("PATH", "venv/bin");
	is("accelerate", HVD_TORCH(2, 13));
	put("train.py", "#!/usr/bin/env python\n", 0755);
	is_below("train.py", HVD_TORCH(2, 13));
	put("run.sh", "#!/bin/bash\npython train.py\n", 0755);
	is_below("run.sh", HVD_TORCH(2, 13));
	teardown();
}

TEST(where_python_looks_for_modules)
{
	setup();
	put_torch("home/.local/lib/python3.11/site-packages", "2.6.0");
	set("HOME", "home");
	is("python3", HVD_TORCH(2, 6));
	is_below("venv/bin/python", HVD_TORCH(2, 13));
	hvd_env_set(&env, "PYTHONNOUSERSITE", "1");
	is("python3", HVD_TORCH(2, 4));
	put_torch("modules/torch-2.9", "2.9.1");
	set("PYTHONPATH", "modules/torch-2.9");
	is("python3", HVD_TORCH(2, 9));
	is_below("venv/bin/python", HVD_TORCH(2, 9));
	hvd_env_unset(&env, "PYTHONPATH");
	/* One that sees the system's modules, and has none itself. */
	put_link("venv2/bin/python", "usr/bin/python3");
	put("venv2/pyvenv.cfg", "include-system-site-packages = true\n", 0644);
	is_below("venv2/bin/python", HVD_TORCH(2, 4));
	put("venv2/pyvenv.cfg", "include-system-site-packages = false\n", 0644);
	is_below("venv2/bin/python", 0);
	teardown();
}

static struct hvd_command_facts of(const char *a, const char *b, const char *c, const char *d)
{
	char *argv[] = {(char *)a, (char *)b, (char *)c, (char *)d, NULL};

	return hvd_command_facts(argv, env.v);
}

static bool may_torchrun(const char *a, const char *b, const char *c, const char *d)
{
	return !of(a, b, c, d).no_torchrun;
}

TEST(torchrun_or_not)
{
	char *script;

	setup();
	set("PATH", "venv/bin");
	put("venv/bin/torchrun", "#!/usr/bin/env python\nimport re\n", 0755);
	put("train.py", "#!/usr/bin/env python\n", 0755);
	script = in_root("run.sh");
	assert_true(may_torchrun("torchrun", "train.py", NULL, NULL));
	assert_true(of("torchrun", "train.py", NULL, NULL).torchrun);
	assert_false(of("python", "train.py", NULL, NULL).torchrun);
	assert_false(may_torchrun("torchrun", "--standalone", "train.py", NULL));
	assert_true(may_torchrun("python", "-m", "torch.distributed.run", "train.py"));
	assert_false(may_torchrun("python", "train.py", NULL, NULL));
	assert_false(may_torchrun("python3.11", "-c", "x", NULL));
	assert_true(may_torchrun("bash", "-c", "torchrun train.py", NULL));
	assert_false(may_torchrun("bash", "-c", "torchrun --standalone train.py", NULL));
	assert_false(may_torchrun("bash", "-lc", "torchrun --standalone train.py", NULL));
	assert_true(may_torchrun("numactl", "torchrun", NULL, NULL));
	assert_true(may_torchrun("bash", script, NULL, NULL));
	put("run.sh", "#!/bin/bash\nexec torchrun --standalone train.py\n", 0755);
	assert_false(may_torchrun("bash", script, NULL, NULL));
	assert_false(may_torchrun("bash", "-e", script, NULL));
	assert_false(may_torchrun(script, NULL, NULL, NULL));
	put("run.sh", "#!/bin/bash\nexec torchrun train.py\n", 0755);
	assert_true(may_torchrun(script, NULL, NULL, NULL));
	free(script);
	script = in_root("train.py");
	assert_false(may_torchrun(script, NULL, NULL, NULL));
	free(script);
	teardown();
}

static bool one_gpu(const char *text)
{
	char *file = in_root("gpu.py");
	bool is, by_itself;

	put("gpu.py", text, 0755);
	is = of("python", "-u", file, "--epochs=2").one_gpu;
	by_itself = of(file, NULL, NULL, NULL).one_gpu;
	assert_int_equal(by_itself, is && strncmp(text, "#!", 2) == 0);
	assert_false(of("torchrun", file, NULL, NULL).one_gpu);
	assert_false(of("deepspeed", file, NULL, NULL).one_gpu);
	assert_false(of("python", "-m", "torch.distributed.run", file).one_gpu);
	assert_false(of("accelerate", "launch", file, NULL).one_gpu);
	free(file);
	return is;
}

TEST(one_gpu_for_each_rank)
{
	setup();
	set("PATH", "venv/bin");
	assert_true(one_gpu("import torch\ntorch.cuda.set_device(int(os.environ['LOCAL_RANK']))\n"));
	assert_true(one_gpu("#!/usr/bin/env python\ndist.init_process_group()\n"));
	assert_true(one_gpu("from accelerate import Accelerator\na = Accelerator()\n"));
	assert_false(one_gpu("print(1)\n"));
	assert_false(one_gpu("import torch.multiprocessing as mp\ndist.init_process_group()\nmp.spawn(f)\n"));
	assert_false(one_gpu("import ray\ndist.init_process_group()\n"));
	assert_false(of("python", "-c", "LOCAL_RANK", NULL).one_gpu);
	assert_false(of("python", NULL, NULL, NULL).one_gpu);
	teardown();
}

TEST(ray)
{
	char *script;

	setup();
	assert_true(of("ray", "start", "--head", NULL).ray);
	assert_true(of("/opt/bin/ray", "start", NULL, NULL).ray);
	assert_true(of("bash", "-c", "ray start --block", NULL).ray);
	assert_false(of("python", "ray.py", NULL, NULL).ray);
	put("head.sh", "#!/bin/sh\nexec ray start --head --block\n", 0755);
	script = in_root("head.sh");
	assert_true(of(script, NULL, NULL, NULL).ray);
	free(script);
	assert_false(hvd_command_facts(NULL, NULL).ray);
	teardown();
}

TEST(versions)
{
	static const struct {
		const char *text;
		unsigned version;
	} cases[] = {
		{"__version__ = '2.7.1+cu126'\n", HVD_TORCH(2, 7)},
		{"a = 1\n__version__ = \"2.15.0\"", HVD_TORCH(2, 15)},
		{"__version__: Final[str] = '3.0.0'", HVD_TORCH(3, 0)},
		{"__version__ = '2.7.0a0+6c54963f75.nv25.02'", HVD_TORCH(2, 6)},
		{"__version__ = '2.7.0.dev20250101'", HVD_TORCH(2, 7)},
		{"__version__ = '2.7'", HVD_TORCH(2, 7)},
		{"__version__ = '", 0},
		{"__version__ = 2.7", 0},
		{"__version__", 0},
		{"x__version__ = '2.7.1'", 0},
		{"__version__ = '2'", 0},
		{"__version__ = '2.99999999999999999999'", 0},
		{"", 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (hvd_torch_version_parse(cases[i].text) != cases[i].version)
			fail_msg("%s: %u", cases[i].text, hvd_torch_version_parse(cases[i].text));
}

TEST(first_lines)
{
	static const struct {
		const char *text, *python;
	} cases[] = {
		{"#!/usr/bin/python3\n", "/usr/bin/python3"},
		{"#! /usr/bin/python3 -u\n", "/usr/bin/python3"},
		{"#!/usr/bin/env python3.12\n", "python3.12"},
		{"#!/usr/bin/env -S python3 -u\n", "python3"},
		{"#!/bin/sh\n'''exec' /opt/x/bin/python \"$0\" \"$@\"\n", "/opt/x/bin/python"},
		{"#!/bin/bash\npython3\n", NULL},
		{"#!/usr/bin/env", NULL},
		{"#!", NULL},
		{"\177ELF", NULL},
		{"", NULL},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *python = hvd_script_python(cases[i].text);

		if (!python != !cases[i].python || (python && strcmp(python, cases[i].python) != 0))
			fail_msg("%s: %s", cases[i].text, python ? python : "none");
		free(python);
	}
}

RUN_TESTS()
