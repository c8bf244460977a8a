/* SPDX-License-Identifier: Apache-2.0 */
#include "loss.h"

#include "lib/base/xalloc.h"
#include "lib/process/spawn.h"
#include "lib/protocol/wire.h"

#include <limits.h>
#include <string.h>
#include <sys/wait.h>

static const struct kind {
	const char *name, *what, *duty, *outlook;
} kinds[HVD_LOSS_KINDS] = {
	[HVD_LOSS_AGENT] =
		{"hvd-agent", "the node agent", "it connected the ranks there to the rendezvous",
		 "the ranks have initialized and go on; ranks on this host fail when they use the store again"},
	[HVD_LOSS_SPAWNER] = {"hvd-agent", "the node agent", "it had started the ranks there, which ended with it",
			      "its ranks have ended with it"},
	[HVD_LOSS_SHIM] = {"hvd-shim", "the rank shim", "it had started the rank", "its rank has ended with it"},
	[HVD_LOSS_HOST] = {.duty = "with all ranks there"},
};

int hvd_loss_parse(const json_t *msg, struct hvd_loss *loss, struct hvd_err *err)
{
	int64_t pid, status;

	*loss = (struct hvd_loss){0};
	if (hvd_get_int(msg, "pid", 0, INT_MAX, &pid, err) != 0 ||
	    hvd_get_int(msg, "status", 0, 0xffff, &status, err) != 0 ||
	    hvd_get_int(msg, "ended", 0, INT64_MAX, &loss->at, err) != 0)
		return -1;
	loss->pid = (pid_t)pid;
	loss->status = (int)status;
	return 0;
}

const char *hvd_loss_name(const struct hvd_loss *loss)
{
	return kinds[loss->of].name;
}

const char *hvd_loss_duty(const struct hvd_loss *loss)
{
	return kinds[loss->of].duty;
}

const char *hvd_loss_outlook(const struct hvd_loss *loss)
{
	return kinds[loss->of].outlook;
}

char *hvd_loss_text(const struct hvd_loss *loss)
{
	char *text, how[64];

	if (loss->of == HVD_LOSS_HOST)
		return hvd_xasprintf("the host was lost");
	text = hvd_xasprintf("%s (%s", kinds[loss->of].what, kinds[loss->of].name);
	if (loss->pid)
		hvd_xappendf(&text, ", pid %d", (int)loss->pid);
	hvd_xappendf(&text, ") ");
	if (loss->of == HVD_LOSS_SHIM)
		hvd_xappendf(&text, "of rank %u ", (unsigned)loss->rank);
	if (loss->status < 0)
		hvd_xappendf(&text, "has ended");
	else
		hvd_xappendf(&text, "%s%s", WIFSIGNALED(loss->status) ? "was " : "has ended: ",
			     hvd_status_text(loss->status, how, sizeof(how)));
	return text;
}
