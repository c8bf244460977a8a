/* SPDX-License-Identifier: Apache-2.0 */
#include "scontrol.h"

#include "gres.h"
#include "lib/base/cleanup.h"
#include "lib/base/digits.h"
#include "lib/base/xalloc.h"

#include <ctype.h>
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

/* Read the value of SrunPortRange, "60001-63000"; "0-0" if it is not set. */
static void take_range(const char *p, struct hvd_slurm_site *site)
{
	int lo = (int)hvd_take_digits(&p, 65535), hi;

	if (lo < 1 || *p++ != '-')
		return;
	hi = (int)hvd_take_digits(&p, 65535);
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

int hvd_scontrol_grace(const char *text)
{
	const char *at = strstr(text, " GraceTime=");

	return at ? take_seconds(at + strlen(" GraceTime=")) : 0;
}

/* Steps that a list names. */
#define STEPS_MOST      4
#define SRUN_HOSTS_MOST 16

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

void hvd_scontrol_srun_hosts(const char *text, struct hvd_strv *hosts)
{
	for (size_t n; *text && hosts->n < SRUN_HOSTS_MOST; text += n + (text[n] == '\n')) {
		const char *its_srun, *colon;
		char host[256];
		int len;

		n = strcspn(text, "\n");
		if (strncmp(text, "StepId=", 7) != 0)
			continue;
		its_srun = word_of(text, n, " SrunHost:Pid=", &len);
		colon = memchr(its_srun, ':', (size_t)len);
		if (!colon || colon == its_srun || *its_srun == '(' || colon - its_srun >= (long)sizeof(host))
			continue;
		snprintf(host, sizeof(host), "%.*s", (int)(colon - its_srun), its_srun);
		if (!hvd_strv_has(hosts, host))
			hvd_strv_add(hosts, host);
	}
}

/* ---- GPUs ---- */

/* A line of the text, without its end. */
struct line {
	const char *at;
	size_t len;
};

/* Take the next line off the text. */
static bool take_line(const char **text, struct line *out)
{
	if (!**text)
		return false;
	out->at = *text;
	out->len = strcspn(*text, "\n");
	*text += out->len + ((*text)[out->len] == '\n');
	return true;
}

/* The value behind `key`, with which the line begins, up to a blank, or to the line's end. The caller frees it. NULL: the
 * line begins with something else. */
static char *line_value(struct line line, const char *key, bool whole)
{
	const size_t n = strlen(key);
	size_t len = 0;

	if (line.len < n || memcmp(line.at, key, n) != 0)
		return NULL;
	while (n + len < line.len && (whole || line.at[n + len] != ' '))
		len++;
	while (len > 0 && line.at[n + len - 1] == ' ')
		len--;
	return hvd_xstrndup(line.at + n, len);
}

/* The hosts of one line have so many GPUs each. False if a host is none of the job's, or has been there before. */
static bool set_gpus(const char *list, int n, const struct hvd_strv *hosts, int *gpus)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv names = {0};

	if (n < 0 || hvd_hostlist_expand(list, HVD_MAX_HOSTS, &names, NULL) < 0)
		return false;
	for (size_t i = 0, at = 0; i < names.n; i++, at++) {
		/* Both are mostly in the same order. */
		for (size_t tried = 0; tried < hosts->n; tried++, at++)
			if (strcmp(hosts->v[at %= hosts->n], names.v[i]) == 0)
				break;
		if (strcmp(hosts->v[at %= hosts->n], names.v[i]) != 0 || gpus[at] >= 0)
			return false;
		gpus[at] = n;
	}
	return true;
}

int *hvd_scontrol_gpus(const char *text, const char *name, const struct hvd_strv *hosts)
{
	hvd_cleanup_free int *gpus = hvd_xcalloc(hosts->n + 1, sizeof(*gpus));
	const char *at = strstr(text, " JobName=");
	bool good, any = false;
	struct line line;

	at = at ? at + strlen(" JobName=") : text;
	good = strncmp(at, name, strlen(name)) == 0 && at[strlen(name)] == '\n';
	if (good)
		text = at + strlen(name);
	for (size_t i = 0; i < hosts->n; i++)
		gpus[i] = -1;
	/* The lines of the hosts follow each other. Texts of the user's may come below them. */
	while (good && take_line(&text, &line)) {
		/* "     Nodes=n[1-2] CPU_IDs=0-1 Mem=0 GRES=gpu:1(IDX:0)" */
		hvd_cleanup_free char *list = line_value(line, "     Nodes=", false);
		const char *gres = list ? memmem(line.at, line.len, " GRES=", strlen(" GRES=")) : NULL;
		hvd_cleanup_free char *what = NULL;

		if (!gres && any)
			break;
		if (!gres)
			continue;
		any = true;
		gres += strlen(" GRES=");
		what = hvd_xstrndup(gres, (size_t)(line.at + line.len - gres));
		good = set_gpus(list, *what ? hvd_gres_gpus(what) : 0, hosts, gpus);
	}
	for (size_t i = 0; i < hosts->n; i++)
		good = good && gpus[i] >= 0;
	return good ? hvd_take_ptr(&gpus) : NULL;
}

/* ---- nodes ---- */

/* What `scontrol show node` prints of one; NULL what it does not. */
struct node {
	char *name, *state, *cpus, *features, *gres, *partitions;
};

static void clear_node(struct node *node)
{
	free(node->name);
	free(node->state);
	free(node->cpus);
	free(node->features);
	free(node->gres);
	free(node->partitions);
	*node = (struct node){0};
}

/* The first line with a key counts: what administrators wrote of the node is in the last lines. */
static void take_fact(char **fact, struct line line, const char *key, bool whole)
{
	if (!*fact)
		*fact = line_value(line, key, whole);
}

static void take_cpus(char **cpus, struct line line)
{
	const char *at = memmem(line.at, line.len, " CPUTot=", strlen(" CPUTot="));

	if (!*cpus && at && memcmp(line.at, "   CPUAlloc=", line.len < 12 ? line.len : 12) == 0)
		*cpus = line_value((struct line){at, (size_t)(line.at + line.len - at)}, " CPUTot=", false);
}

/* Take one node off the text. False: there is none left. */
static bool take_node(const char **text, struct node *node)
{
	struct line line;

	clear_node(node);
	for (const char *next = *text; take_line(&next, &line); *text = next) {
		if (line.len > 9 && memcmp(line.at, "NodeName=", 9) == 0) {
			if (node->name)
				return true;
			node->name = line_value(line, "NodeName=", false);
		} else if (node->name) {
			take_cpus(&node->cpus, line);
			take_fact(&node->state, line, "   State=", false);
			take_fact(&node->features, line, "   AvailableFeatures=", true);
			take_fact(&node->gres, line, "   Gres=", true);
			take_fact(&node->partitions, line, "   Partitions=", false);
		}
	}
	return node->name;
}

/* Does the state, "IDLE+DRAIN+NOT_RESPONDING", have one of these words? Releases before 21.08 put a character behind
 * a word for what have been words of their own since. */
static bool state_has(const char *state, const char *const *words, const char *signs)
{
	for (size_t n; state && *state; state += n + (state[n] == '+')) {
		size_t len = n = strcspn(state, "+");

		while (len > 0 && !isalnum((unsigned char)state[len - 1]))
			if (strchr(signs, state[--len]))
				return true;
		for (const char *const *w = words; *w; w++)
			if (strlen(*w) == len && memcmp(*w, state, len) == 0)
				return true;
	}
	return false;
}

static bool is_unusable(const char *state)
{
	static const char *const words[] = {"DOWN",         "ERROR",         "FUTURE",        "DRAIN",
					    "DRAINED",      "DRAINING",      "FAIL",          "FAILING",
					    "POWERED_DOWN", "POWERING_DOWN", "REBOOT_ISSUED", NULL};

	/* Powered down, powering down, and a reboot that was issued. */
	return state_has(state, words, "~%^");
}

static bool answers(const char *state)
{
	static const char *const words[] = {"UNKNOWN", "NOT_RESPONDING", NULL};

	return state && !state_has(state, words, "*");
}

static bool same_text(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "") == 0;
}

static bool alike(const struct node *a, const struct node *b)
{
	return same_text(a->cpus, b->cpus) && same_text(a->features, b->features) && same_text(a->gres, b->gres) &&
	       same_text(a->partitions, b->partitions);
}

void hvd_scontrol_unusable(const char *text, struct hvd_strv *unusable)
{
	HVD_CLEANUP(clear_node) struct node node = {0};

	while (take_node(&text, &node))
		if (is_unusable(node.state))
			hvd_strv_add(unusable, node.name);
}

long hvd_scontrol_nodes_like(const char *text, const char *name, const struct hvd_strv *excluded)
{
	HVD_CLEANUP(clear_node) struct node self = {0}, node = {0};
	const char *at = text;
	long n = 0;

	do {
		if (!take_node(&at, &self))
			return -1;
	} while (strcmp(self.name, name) != 0);
	while (take_node(&text, &node))
		n += strcmp(node.name, name) != 0 && !is_unusable(node.state) && answers(node.state) &&
		     alike(&node, &self) && !hvd_strv_has(excluded, node.name);
	return n;
}
