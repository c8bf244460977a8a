/* SPDX-License-Identifier: Apache-2.0 */
#include "slurm_nodes.h"

#ifdef HVD_WITH_SLURM

#include <string.h>

bool hvd_slurm_node_unusable(uint32_t node_state)
{
	const uint32_t base = node_state & NODE_STATE_BASE;
	const uint32_t flags = NODE_STATE_DRAIN | NODE_STATE_FAIL | NODE_STATE_POWERED_DOWN | NODE_STATE_POWERING_DOWN |
			       NODE_STATE_REBOOT_ISSUED;

	return base == NODE_STATE_DOWN || base == NODE_STATE_ERROR || base == NODE_STATE_FUTURE || node_state & flags;
}

static bool answers(uint32_t node_state)
{
	return (node_state & NODE_STATE_BASE) != NODE_STATE_UNKNOWN && !(node_state & NODE_STATE_NO_RESPOND);
}

static bool same_text(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "") == 0;
}

static bool alike(const node_info_t *a, const node_info_t *b)
{
	return a->cpus == b->cpus && same_text(a->features, b->features) && same_text(a->gres, b->gres) &&
	       same_text(a->partitions, b->partitions);
}

static const node_info_t *find(const node_info_msg_t *all, const char *name)
{
	for (uint32_t i = 0; i < all->record_count; i++)
		if (same_text(all->node_array[i].name, name))
			return &all->node_array[i];
	return NULL;
}

long hvd_slurm_nodes_like(const node_info_msg_t *all, const char *name, const struct hvd_strv *excluded)
{
	const node_info_t *self = find(all, name);
	long n = 0;

	if (!self)
		return -1;
	for (uint32_t i = 0; i < all->record_count; i++) {
		const node_info_t *node = &all->node_array[i];

		n += node != self && node->name && !hvd_slurm_node_unusable(node->node_state) &&
		     answers(node->node_state) && alike(node, self) && !hvd_strv_has(excluded, node->name);
	}
	return n;
}

#endif
