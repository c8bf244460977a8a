/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command_facts.h - what a command will do that matters for its environment, as far as its words and files show it.
 * Nothing is executed, and no more than some dozens of files are opened.
 *
 * The command's Python is the command itself (python train.py), or the one that the first line of a script names, else
 * that of VIRTUAL_ENV, CONDA_PREFIX or PATH. Nothing is known of a command that starts a container.
 */
#ifndef HVD_COMMAND_FACTS_H
#define HVD_COMMAND_FACTS_H

#include "torch_version.h"

#include <stdbool.h>

/* Zeroed: nothing is known. */
struct hvd_command_facts {
	unsigned torch;   /* the version of PyTorch, as hvd_torch_of_python() has it; 0: unknown */
	bool torchrun;    /* it names torchrun */
	bool no_torchrun; /* it does not run torchrun, or runs torchrun --standalone */
	bool ray;         /* it starts Ray on this host */
	bool one_gpu; /* it is a program in Python that uses one GPU in each rank, and starts no processes for others */
};

/* `argv` and `envp` are NULL-terminated, or NULL: not known. May hang as long as the file system does. */
struct hvd_command_facts hvd_command_facts(char *const *argv, char *const *envp);

/* The Python in the first lines of a script, with or without a path: of "#!/opt/bin/python3", of "#!/usr/bin/env
 * python3", and of pip's "#!/bin/sh" with '''exec' in the second line. The caller frees it. NULL: it names none.
 * Untrusted input is fine. */
char *hvd_script_python(const char *script);

#endif
