/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines as others may read them. */
#include "lib/process/command_line.h"

#include "tests/unit/unit.h"

static void shown(const char *want, ...)
{
	char *argv[16] = {NULL};
	va_list words;

	va_start(words, want);
	for (int i = 0; i < 15 && (argv[i] = va_arg(words, char *)); i++)
		;
	va_end(words);
	assert_text(hvd_command_line(argv), want);
}

TEST(a_line_for_a_shell)
{
	shown("", NULL);
	shown("hvdrun -np 4 python train.py 'two words' ''", "hvdrun", "-np", "4", "python", "train.py", "two words",
	      "", NULL);
	shown("python train.py --tokenizer=gpt2 --max-tokens=512 --key-file=/k --monkey", "python", "train.py",
	      "--tokenizer=gpt2", "--max-tokens=512", "--key-file=/k", "--monkey", NULL);
	shown("python -m http.server a:b http://host/x@y", "python", "-m", "http.server", "a:b", "http://host/x@y",
	      NULL);
}

TEST(secrets_are_left_out)
{
	shown("python '--token=***'", "python", "--token=hf_abc", NULL);
	shown("python --hub-token '***' --password -v", "python", "--hub-token", "hf_abc", "--password", "-v", NULL);
	shown("hvdrun -x 'WANDB_API_KEY=***' '--export=ALL,HF_TOKEN=***,A=1' python", "hvdrun", "-x",
	      "WANDB_API_KEY=abc", "--export=ALL,HF_TOKEN=abc,A=1", "python", NULL);
	shown("sh -c 'AWS_SECRET_ACCESS_KEY=*** python train.py; PASSWORD=*** x'", "sh", "-c",
	      "AWS_SECRET_ACCESS_KEY=abc/+ python train.py; PASSWORD=abc x", NULL);
	shown("curl -H 'Authorization:***' 'https://***@host/a'", "curl", "-H", "Authorization: Bearer abc",
	      "https://me:abc@host/a", NULL);
	shown("a = :// --token", "a", "=", "://", "--token", NULL);
}

TEST(of_a_process)
{
	char *line = hvd_command_line_of(getpid());

	assert_in(line, "test_command_line");
	free(line);
	assert_null(hvd_command_line_of(0));
}

RUN_TESTS()
