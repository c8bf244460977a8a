/* SPDX-License-Identifier: Apache-2.0 */
#include "stack_events.h"

#include "lib/base/cleanup.h"
#include "lib/base/strv.h"
#include "stack_groups_internal.h"

#include <stdio.h>

#define MOST_GROUPS 16
#define MOST_FRAMES 24
/* Hosts that are named. */
#define MOST_HOSTS 16

static char *ranks_of(const struct hvd_stack_group *group)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	hvd_stack_put_ranks(out, group);
	fclose(out);
	return text;
}

static char *hosts_of(const struct hvd_stack_group *group)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv names = {0};

	for (size_t i = 0; i < group->n && names.n < MOST_HOSTS; i++)
		if (!hvd_strv_has(&names, group->first[i].host))
			hvd_strv_add(&names, group->first[i].host);
	return hvd_strv_join(&names, ", ");
}

/* A line for each frame. */
static char *frames_of(const struct hvd_stack_group *group)
{
	const json_t *frames = json_object_get(group->first->process, "frames");
	char *text = NULL;
	size_t len, i;
	FILE *out = open_memstream(&text, &len);
	json_t *frame;

	json_array_foreach(frames, i, frame)
	{
		if (i == MOST_FRAMES)
			break;
		fputs(i ? "\n" : "", out);
		hvd_stack_put_frame(out, frame);
	}
	fclose(out);
	return text;
}

static void log_group(const struct hvd_stack_group *group, unsigned world, struct hvd_event_log *events)
{
	hvd_cleanup_free char *ranks = ranks_of(group), *hosts = hosts_of(group), *frames = frames_of(group);
	char where[HVD_STACK_TEXT];

	hvd_stack_place(group->first->process, where);
	hvd_event(events, STACK_GROUP, .world = world, .count = (int64_t)group->n, .members = ranks, .hosts = hosts,
		  .where = where, .stack = frames);
}

void hvd_stack_events(const json_t *answers, unsigned world, struct hvd_event_log *events)
{
	struct hvd_stack_groups groups;
	size_t logged = 0;

	hvd_stack_groups_make(answers, &groups);
	for (size_t i = 0; i < groups.n && logged < MOST_GROUPS; i++)
		if (!groups.v[i].first->child) {
			log_group(&groups.v[i], world, events);
			logged++;
		}
	hvd_stack_groups_clear(&groups);
}
