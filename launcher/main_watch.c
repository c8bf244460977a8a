/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hvd-watch - hvdrun --watch, which starts it; a program of its own, because only it needs ncurses.
 *
 *   hvd-watch --interval=SECONDS [--json] HVDRUN JOB
 */
#include "launcher/watch/watch.h"
#include "lib/base/log.h"
#include "lib/base/option_rows.h"

#include <signal.h>
#include <stddef.h>
#include <stdio.h>

struct values {
	int interval;
	bool json;
};

static const struct hvd_option_row rows[] = {
	{"interval", "SECONDS", "ask so often (5)", hvd_option_number, offsetof(struct values, interval)},
	{"json", NULL, "print a line of JSON each time", hvd_option_flag, offsetof(struct values, json)},
	{0},
};

int main(int argc, char **argv)
{
	struct hvd_log log = hvd_log_make("hvdrun", HVD_LOG_INFO);
	struct values values = {.interval = 5};
	struct hvd_watch_opts opts = {0};
	struct hvd_err err = {0};
	char **operands;
	const int rc = hvd_option_rows_parse(rows, NULL, false, argc, argv, &values, &operands, &err);

	signal(SIGPIPE, SIG_DFL); /* hvdrun ignores it */
	if (rc < 0) {
		hvd_log_err(&log, &err);
		return hvd_err_status(&err);
	}
	if (rc > 0 || !operands[0] || !operands[1] || operands[2]) {
		fprintf(rc > 0 ? stdout : stderr,
			"usage: hvd-watch [OPTION] HVDRUN JOB\nhvdrun --watch starts it.\n\n");
		hvd_option_rows_print(rc > 0 ? stdout : stderr, rows);
		return rc > 0 ? 0 : 2;
	}
	opts.hvdrun = operands[0];
	opts.job = operands[1];
	opts.interval = values.interval < 1 ? 1 : values.interval;
	opts.json = values.json;
	return hvd_watch(&opts);
}
