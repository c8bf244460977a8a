/* SPDX-License-Identifier: Apache-2.0 */
#include "scontrol.h"

#include "lib/base/xalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The value of a line "key   = value"; NULL if the line has another key. */
static const char *value_of(const char *line, const char *key)
{
	size_t len = strlen(key);

	if (strncmp(line, key, len) != 0 || (line[len] != ' ' && line[len] != '='))
		return NULL;
	line += len + strspn(line + len, " ");
	if (*line != '=')
		return NULL;
	return line + 1 + strspn(line + 1, " ");
}

/* Read the port at *p and move *p behind it; -1 if there is none. */
static int take_port(const char **p)
{
	char *end;
	unsigned long port;

	if (**p < '0' || **p > '9')
		return -1;
	port = strtoul(*p, &end, 10);
	*p = end;
	return port <= 65535 ? (int)port : -1;
}

/* Read the value of SrunPortRange, "60001-63000"; "0-0" if it is not set. */
static void take_range(const char *p, struct hvd_slurm_site *site)
{
	int lo = take_port(&p), hi;

	if (lo < 1 || *p++ != '-')
		return;
	hi = take_port(&p);
	if (hi < lo)
		return;
	site->port_lo = lo;
	site->port_hi = hi;
}

/* Read the value of KillWait, "30 sec"; 0 if it is none. */
static int take_seconds(const char *p)
{
	const size_t digits = strspn(p, "0123456789");

	return digits > 0 && digits < 6 ? atoi(p) : 0;
}

void hvd_scontrol_config_parse(const char *text, struct hvd_slurm_site *site)
{
	*site = (struct hvd_slurm_site){.munge = true};
	for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		const char *value;

		if ((value = value_of(line, "SrunPortRange")))
			take_range(value, site);
		else if ((value = value_of(line, "TaskPlugin")))
			site->binds = *value && *value != '\n' && *value != '(' &&
				      strncmp(value, "task/none", strlen("task/none")) != 0;
		else if ((value = value_of(line, "KillWait")))
			site->kill_wait = take_seconds(value);
		else if ((value = value_of(line, "AuthType")))
			site->munge = strncmp(value, "auth/munge", strlen("auth/munge")) == 0;
	}
}

/* Steps that a list names. */
#define STEPS_MOST 4

/* The word behind " KEY=" within the line; its length is *len, 0 if there is none. */
static const char *word_of(const char *line, size_t n, const char *key, int *len)
{
	const char *at = memmem(line, n, key, strlen(key));

	*len = 0;
	if (!at)
		return "";
	at += strlen(key);
	while (at + *len < line + n && at[*len] != ' ' && at[*len] != '\n')
		++*len;
	return at;
}

char *hvd_scontrol_steps(const char *text, pid_t srun)
{
	char *list = NULL;
	int found = 0;

	for (size_t n; *text; text += n + (text[n] == '\n')) {
		unsigned job, step, pid = 0;
		int name, nodes, host;
		const char *its_name, *its_nodes, *its_srun;

		n = strcspn(text, "\n");
		if (sscanf(text, "StepId=%u.%u ", &job, &step) != 2)
			continue;
		its_name = word_of(text, n, " Name=", &name);
		its_nodes = word_of(text, n, " NodeList=", &nodes);
		its_srun = word_of(text, n, " SrunHost:Pid=", &host);
		if (memchr(its_srun, ':', (size_t)host))
			pid = (unsigned)strtoul((char *)memchr(its_srun, ':', (size_t)host) + 1, NULL, 10);
		if (pid == (unsigned)srun) {
			free(list);
			return NULL;
		}
		if (++found > STEPS_MOST)
			continue;
		if (!list)
			list = hvd_xstrdup("");
		hvd_xappendf(&list, "%s%u.%u (%.*s on %.*s)", *list ? ", " : "", job, step, name > 64 ? 64 : name,
			     its_name, nodes > 128 ? 128 : nodes, its_nodes);
	}
	if (found > STEPS_MOST)
		hvd_xappendf(&list, " and %d more", found - STEPS_MOST);
	return list;
}
