/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/process/other_launcher.h"

#include "tests/unit/unit.h"

static struct hvd_err err;

/* The words of `line`, which are divided by blanks, as a command. */
static int refuse(const char *line, long ranks, bool crowded, const char *own, bool counts)
{
	struct hvd_strv words = {0};
	char text[256], *save = NULL;
	int rc;

	snprintf(text, sizeof(text), "%s", line);
	for (char *w = strtok_r(text, " ", &save); w; w = strtok_r(NULL, " ", &save))
		hvd_strv_add(&words, w);
	err = (struct hvd_err){0};
	rc = hvd_other_launcher_refuse(words.v, ranks, crowded, own, counts, &err);
	hvd_strv_free(&words);
	return rc;
}

TEST(a_launcher_as_the_command_is_refused_with_the_line_to_write)
{
	static const struct {
		const char *line, *name, *write;
	} cases[] = {
		{"torchrun train.py --lr 1", "torchrun", "write hvdrun -np 2 python train.py --lr 1, a rank"},
		{"/opt/x/bin/torchrun --standalone --nproc_per_node 4 train.py", "torchrun", "-np 2 python train.py,"},
		{"torchrun --nproc-per-node=4 -m pkg.train --nproc-per-node=9", "torchrun",
		 "python -m pkg.train --nproc-per-node=9,"},
		{"torchrun --no-python --rdzv_conf a=1 --max-restarts 3 ./prog", "torchrun", "-np 2 ./prog,"},
		{"python3 -u -m torch.distributed.run --tee 3 train.py", "torch.distributed.run", "python train.py,"},
		{"python -m torch.distributed.launch --use_env train.py", "torch.distributed.launch",
		 "python train.py,"},
		{"accelerate launch --multi_gpu --config_file c.yaml train.py x", "accelerate", "python train.py x,"},
		{"deepspeed --hostfile h --num_gpus 2 train.py --deepspeed", "deepspeed",
		 "python train.py --deepspeed,"},
		{"mpirun -np 4 --mca btl tcp -x A --oversubscribe ./prog -np 1", "mpirun",
		 "write hvdrun -np 2 ./prog -np 1; for"},
		{"mpiexec -n 4 -ppn 2 python train.py", "mpiexec", "-np 2 python train.py;"},
		{"srun -n4 -l python train.py", "srun",
		 "write srun --hvd -n4 -l python train.py, or hvdrun -n4 -l python "
		 "train.py"},
		{"hvdrun -np 4 python train.py", "hvdrun", "write hvdrun -np 4 python train.py"},
		{"env A=1 B=2 torchrun train.py", "torchrun", "python train.py"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char says[128];

		snprintf(says, sizeof(says), "%s is a launcher, too", cases[i].name);
		assert_fails_with(refuse(cases[i].line, 2, true, "hvdrun -np 2", true), err, HVD_E_USAGE, says);
		assert_in(err.hint, cases[i].write);
	}
}

TEST(the_number_of_ranks_comes_from_the_launcher_if_the_line_has_none)
{
	assert_int_equal(refuse("torchrun --nproc_per_node=4 --nnodes 2 a.py", 8, true, "hvdrun", false), -1);
	assert_in(err.hint, "write hvdrun -np 8 python a.py,");
	assert_int_equal(refuse("mpirun -np 6 ./a", 8, true, "hvdrun -v", false), -1);
	assert_in(err.hint, "write hvdrun -v -np 6 ./a;");
	assert_int_equal(refuse("torchrun --nproc_per_node=gpu a.py", 8, true, "hvdrun", false), -1);
	assert_in(err.hint, "write hvdrun python a.py,");
}

TEST(what_can_work_is_no_mistake)
{
	assert_int_equal(refuse("torchrun train.py", 4, false, "hvdrun", false), 0); /* one on each host */
	assert_int_equal(refuse("accelerate config", 4, true, "hvdrun", false), 0);
	assert_int_equal(refuse("mpirun -np 2 ./a", 1, false, "hvdrun", false), 0);
	assert_int_equal(refuse("python train.py -m torch.distributed.run", 4, true, "hvdrun", false), 0);
	assert_int_equal(refuse("python -m torch.utils.collect_env", 4, true, "hvdrun", false), 0);
	assert_int_equal(refuse("python -c torchrun", 4, true, "hvdrun", false), 0);
	assert_int_equal(refuse("bash torchrun", 4, true, "hvdrun", false), 0);
	assert_int_equal(refuse("env", 4, true, "hvdrun", false), 0);
	assert_int_equal(refuse("torchrun", 4, true, "hvdrun", false), -1); /* without a program */
}

TEST(a_long_line_is_cut)
{
	char line[256] = "torchrun a.py";

	while (strlen(line) < 240)
		strcat(line, " bcdefghij");
	assert_int_equal(refuse(line, 2, true, "hvdrun -np 2", true), -1);
	assert_in(err.hint, "one torchrun on each host");
}

RUN_TESTS()
