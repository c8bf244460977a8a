/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frameworks.h - the frameworks whose variables ranks can get, and how PyTorch's ranks find their store.
 *
 * Uses nothing but libc: the SPANK plugin links it.
 */
#ifndef HVD_FRAMEWORKS_H
#define HVD_FRAMEWORKS_H

#include "lib/base/err.h"
#include "lib/base/strv.h"

/* Bits of a set of frameworks. */
enum hvd_framework {
	HVD_FW_HOROVOD = 1 << 0,
	HVD_FW_TORCH = 1 << 1,    /* torch.distributed's env:// */
	HVD_FW_TORCHRUN = 1 << 2, /* PET_*: a torchrun that a rank starts */
	HVD_FW_JAX = 1 << 3,
	HVD_FW_DEEPSPEED = 1 << 4,
	HVD_FW_ACCELERATE = 1 << 5,
	HVD_FW_LIGHTNING = 1 << 6,
	HVD_FW_TENSORFLOW = 1 << 7, /* TF_CONFIG, which has a word for each rank: never part of "auto" */
};

#define HVD_FW_NONE 0U
#define HVD_FW_AUTO (~0U & ~(unsigned)HVD_FW_TENSORFLOW)

/* For option tables and messages: the names in the order of the bits. */
#define HVD_FRAMEWORKS_WORDS "horovod|torch|torchrun|jax|deepspeed|accelerate|lightning|tensorflow"

/* Read "auto", "none", or names with commas between them, of either case. `from` names the option or setting in
 * messages. 0, or -1 with err set (HVD_E_USAGE) and *set unchanged. */
int hvd_frameworks_parse(const char *from, const char *text, unsigned *set, struct hvd_err *err);

/* Append the names of a set's frameworks, in the order of enum hvd_framework. */
void hvd_frameworks_names(unsigned set, struct hvd_strv *names);

/* --store: who serves the TCPStore through which torch.distributed's ranks rendezvous. */
enum hvd_store_mode {
	HVD_STORE_AGENT = 0, /* the launch's rendezvous */
	HVD_STORE_RANK0,     /* rank 0's process, at a port that is reserved for it */
	HVD_STORE_OFF,       /* MASTER_ADDR, MASTER_PORT and TORCHELASTIC_USE_AGENT_STORE are not set */
};

#define HVD_STORE_WORDS "agent|rank0|off"

#endif
