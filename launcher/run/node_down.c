/* SPDX-License-Identifier: Apache-2.0 */
#include "node_down.h"

#include "lib/base/cleanup.h"
#include "lib/base/strv.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/job/layout.h"
#include "lib/process/capture.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Seconds between two looks at which ranks have ended. */
#define LOOK_SECONDS 2
/* Looks from one question to Slurm to the next, at most. Ranks may end at different times for hours. When all have ended,
 * srun goes on for seconds or, because of an epilog, for minutes, and the user waits for nothing but the answer. */
#define MOST_LOOKS     32
#define MOST_LOOKS_ALL 4
/* A controller that takes longer to answer is asked again later. */
#define ANSWER_SECONDS 2.0
#define MAX_ANSWER     (256 * 1024)

struct hvd_node_down {
	const struct hvd_driver *driver;
	struct hvd_timer *look;
	unsigned looks, wait;
	bool all; /* look at all hosts */
	void (*down)(const char *host, void *arg);
	void *arg;
};

/* Is one of these hosts down? Then `name` is its name. */
static bool ask(char *hosts, char *name, size_t len)
{
	char *argv[] = {(char *)"sinfo",
			(char *)"--noheader",
			(char *)"--Node",
			(char *)"--states=down",
			(char *)"--format=%N",
			(char *)"--nodes",
			hosts,
			NULL};
	struct hvd_spawn spawn = {.path = argv[0], .argv = argv};
	size_t n;
	int status;
	char *text = hvd_capture(&spawn, MAX_ANSWER, hvd_deadline_in(ANSWER_SECONDS), &n, &status, NULL);
	bool found = false;

	if (text && status == 0) {
		n = strcspn(text, "\n");
		found = n > 0 && n < len;
		if (found) {
			memcpy(name, text, n);
			name[n] = '\0';
		}
	}
	free(text);
	return found;
}

/* Is one of the hosts down? Then that is told, and nobody looks again. */
static bool look(struct hvd_node_down *down, char *hosts)
{
	char name[256];

	if (!ask(hosts, name, sizeof(name)))
		return false;
	hvd_timer_stop(down->look);
	down->down(name, down->arg);
	return true;
}

/* The caller frees them. */
static char *all_hosts(const struct hvd_driver *driver)
{
	const struct hvd_layout *layout = hvd_driver_layout(driver);
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv names = {0};

	for (int h = 0; h < layout->n_hosts; h++)
		hvd_strv_add(&names, layout->hosts[h].name);
	return hvd_strv_join(&names, ",");
}

static void on_look(void *arg)
{
	struct hvd_node_down *down = arg;
	char *hosts = down->all ? all_hosts(down->driver) : hvd_driver_hosts_behind(down->driver);
	unsigned most = down->all ? MOST_LOOKS_ALL : MOST_LOOKS;

	if (!hosts) {
		down->looks = 0;
		down->wait = 1;
	} else if (++down->looks >= down->wait) {
		down->looks = 0;
		down->wait = down->wait * 2 < most ? down->wait * 2 : most;
		look(down, hosts);
	}
	free(hosts);
}

bool hvd_node_down_ask(struct hvd_node_down *down)
{
	char *hosts = hvd_driver_hosts_left(down->driver);
	bool found = hosts && hvd_timer_runs(down->look) && look(down, hosts);

	free(hosts);
	return found;
}

void hvd_node_down_look_at_all(struct hvd_node_down *down)
{
	if (!down->all) {
		down->looks = 0;
		down->wait = 1;
	}
	down->all = true;
}

struct hvd_node_down *hvd_node_down_watch(struct event_base *base, const struct hvd_driver *driver,
					  void (*fn)(const char *host, void *arg), void *arg)
{
	struct hvd_node_down *down = hvd_xcalloc(1, sizeof(*down));

	down->driver = driver;
	down->wait = 1;
	down->down = fn;
	down->arg = arg;
	down->look = hvd_timer_new(base, on_look, down);
	hvd_timer_every_ms(down->look, LOOK_SECONDS * 1000);
	return down;
}

void hvd_node_down_destroy(struct hvd_node_down *down)
{
	if (!down)
		return;
	hvd_timer_free(down->look);
	free(down);
}
