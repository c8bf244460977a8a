/* SPDX-License-Identifier: Apache-2.0 */
/* torch_rank.h - is a rank one of PyTorch that uses the launch's store? */
#ifndef HVD_TORCH_RANK_H
#define HVD_TORCH_RANK_H

#include <stdbool.h>
#include <sys/types.h>

/* Has this process, or one below it, loaded PyTorch, with TORCHELASTIC_USE_AGENT_STORE=True in its environment? False
 * if that cannot be read. Looks at 64 processes at most. */
bool hvd_torch_rank(pid_t pid);

#endif
