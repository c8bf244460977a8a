/* SPDX-License-Identifier: Apache-2.0 */
#include "rvoptions.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind {
	LIST,    /* struct hvd_strv; commas separate the elements */
	PORT,    /* P or LO-HI */
	FLAG,    /* bool */
	UNFLAG,  /* bool that is true without the option */
	SCOPE,   /* NAME=MEMBERS */
	SECONDS, /* double */
	BYTES,   /* size_t, with a suffix */
	COUNT,   /* size_t */
	SMALL,   /* unsigned, below 2^20 */
	FD,
	VERBOSE,
	VERSION,
	HELP,
};

/* Rows are in the order of --help; `at` is the member of struct hvd_rvoptions. */
static const struct row {
	const char *name, *arg, *help;
	enum kind kind;
	char letter;
	size_t at;
} rows[] = {
#define AT(member) offsetof(struct hvd_rvoptions, member)
	{"bind", "ADDR", "listen on this address; may be repeated (default: 127.0.0.1)", LIST, 0, AT(binds)},
	{"port", "P | LO-HI", "listen on this port, or the first free one of a range (default: 0, any)", PORT, 0, 0},
	{"allow", "ADDR[,ADDR...]", "let only these addresses connect, and this host's own processes", LIST, 0,
	 AT(allows)},
	{"any-user", NULL, "let other users' processes on this host connect, too", FLAG, 0, AT(any_user)},
	{"no-tcpstore", NULL, "do not serve PyTorch's TCPStore", UNFLAG, 0, AT(cfg.tcpstore)},
	{"ranks", "N", "how many ranks PyTorch's init_process_group() has (default: not known)", COUNT, 0, AT(ranks)},
	{"scope", "NAME=MEMBERS", "remove a scope's values after this many members have deleted their key", SCOPE, 0,
	 0},
	{"hold", "SEC", "how long a GET waits for its key (default: 1)", SECONDS, 0, AT(cfg.get_wait)},
	{"rank-hold", "SEC", "the same for keys named rank_NUMBER (default: 30)", SECONDS, 0, AT(cfg.rank_wait)},
	{"max-value", "BYTES", "size of one value; K, M, G may follow (default: 256M)", BYTES, 0,
	 AT(cfg.store.value_max)},
	{"max-total", "BYTES", "size of all stored values (default: 4G)", BYTES, 0, AT(cfg.store.total_max)},
	{"max-keys", "N", "keys of one scope (default: 262144)", COUNT, 0, AT(cfg.store.scope_keys_max)},
	{"max-scopes", "N", "scopes (default: 65536)", COUNT, 0, AT(cfg.store.scopes_max)},
	{"max-connections", "N", "open connections (default: 65536)", SMALL, 0, AT(cfg.conns_max)},
	{"idle-exit", "SEC", "end after this time without a connection", SECONDS, 0, AT(idle_exit)},
	{"parent-fd", "FD", "end when this descriptor reaches end of file", FD, 0, 0},
	{"json", NULL, "print the start, and statistics at the end and on SIGUSR1, as JSON lines", FLAG, 0, AT(json)},
	{"verbose", NULL, "print more; twice: even more", VERBOSE, 'v', 0},
	{"version", NULL, "print the version", VERSION, 'V', 0},
	{"help", NULL, "print this help", HELP, 'h', 0},
#undef AT
};

#define N_ROWS     (sizeof(rows) / sizeof(rows[0]))
#define FIRST_LONG 256 /* what getopt_long() returns for a row without a letter: this and its index */

static void usage(void)
{
	printf("usage: hvd-rendezvous [OPTION]...\n\nServe a key-value store through which ranks rendezvous, until "
	       "SIGTERM or SIGINT: over HTTP, for Gloo\ncontexts, and as the TCPStore of PyTorch.\n\n");
	for (size_t i = 0; i < N_ROWS; i++) {
		char letter[] = "-x, ", text[64];

		letter[1] = rows[i].letter;
		snprintf(text, sizeof(text), "%s--%s%s%s", rows[i].letter ? letter : "", rows[i].name,
			 rows[i].arg ? " " : "", rows[i].arg ? rows[i].arg : "");
		printf("  %-22s %s\n", text, rows[i].help);
	}
}

static int bad_value(struct hvd_err *err, const char *option, const char *value)
{
	return hvd_err_set(err, HVD_E_USAGE, "bad value '%s' for %s", value, option);
}

static int parse_seconds(const char *option, const char *s, double *out, struct hvd_err *err)
{
	char *end;

	errno = 0;
	*out = strtod(s, &end);
	if (end == s || *end != '\0' || errno != 0 || !isfinite(*out) || *out < 0 || *out > 1e8)
		return bad_value(err, option, s);
	return 0;
}

/* A number from 1 to `most`, in bytes with an optional suffix. */
static int parse_count(const char *option, const char *s, bool bytes, uint64_t most, uint64_t *out, struct hvd_err *err)
{
	static const char units[] = "KMG";
	unsigned long long n;
	const char *unit;
	char *end;

	errno = 0;
	n = strtoull(s, &end, 10);
	if (s[0] < '0' || s[0] > '9' || errno != 0)
		return bad_value(err, option, s);
	unit = bytes && *end ? strchr(units, *end) : NULL;
	if (unit) {
		unsigned shift = 10 * (unsigned)(unit - units + 1);

		if (n > UINT64_MAX >> shift)
			return bad_value(err, option, s);
		n <<= shift;
		end++;
	}
	if (*end != '\0' || n == 0 || n > most)
		return bad_value(err, option, s);
	*out = n;
	return 0;
}

static int parse_port(const char *s, uint16_t *lo, uint16_t *hi, struct hvd_err *err)
{
	unsigned long v[2] = {0, 0};
	const char *p = s;
	int n = 0;

	do {
		char *end;

		if (*p < '0' || *p > '9')
			return bad_value(err, "--port", s);
		errno = 0;
		v[n++] = strtoul(p, &end, 10);
		if (errno != 0 || v[n - 1] > 65535)
			return bad_value(err, "--port", s);
		p = end;
	} while (*p == '-' && n < 2 && p++);
	if (n == 1)
		v[1] = v[0];
	if (*p != '\0' || v[0] > v[1] || (v[0] == 0 && v[1] != 0))
		return bad_value(err, "--port", s);
	*lo = (uint16_t)v[0];
	*hi = (uint16_t)v[1];
	return 0;
}

static int add_list(struct hvd_strv *sv, const char *option, const char *s, struct hvd_err *err)
{
	const char *start = s;

	for (;;) {
		size_t n = strcspn(s, ",");

		if (n == 0)
			return bad_value(err, option, start);
		hvd_strv_addf(sv, "%.*s", (int)n, s);
		if (s[n] == '\0')
			return 0;
		s += n + 1;
	}
}

static int take_option(struct hvd_rvoptions *o, const struct row *row, const char *arg, struct hvd_err *err)
{
	char option[32];
	void *at = (char *)o + row->at;
	const char *eq;
	uint64_t n;

	snprintf(option, sizeof(option), "--%s", row->name);
	switch (row->kind) {
	case LIST:
		return add_list(at, option, arg, err);
	case PORT:
		return parse_port(arg, &o->lo, &o->hi, err);
	case FLAG:
		*(bool *)at = true;
		return 0;
	case UNFLAG:
		*(bool *)at = false;
		return 0;
	case SCOPE:
		eq = strrchr(arg, '=');
		if (!eq || eq == arg || parse_count(option, eq + 1, false, UINT32_MAX, &n, err) != 0)
			return bad_value(err, option, arg);
		hvd_strv_add(&o->scopes, arg);
		return 0;
	case SECONDS:
		if (parse_seconds(option, arg, at, err) != 0)
			return -1;
		return at != &o->idle_exit || o->idle_exit > 0 ? 0 : bad_value(err, option, arg);
	case BYTES:
	case COUNT:
		if (parse_count(option, arg, row->kind == BYTES, row->kind == BYTES ? SIZE_MAX / 2 : UINT32_MAX, &n,
				err) != 0)
			return -1;
		*(size_t *)at = (size_t)n;
		return 0;
	case SMALL:
		if (parse_count(option, arg, false, 1 << 20, &n, err) != 0)
			return -1;
		*(unsigned *)at = (unsigned)n;
		return 0;
	case FD: /* parse_count() takes no 0 */
		n = 0;
		if (strcmp(arg, "0") != 0 && parse_count(option, arg, false, 1 << 20, &n, err) != 0)
			return -1;
		o->parent_fd = (int)n;
		return 0;
	case VERBOSE:
		o->verbose++;
		return 0;
	case VERSION:
		puts("hvd-rendezvous " HVD_VERSION);
		return 1;
	case HELP:
		usage();
		return 1;
	}
	return 0;
}

int hvd_rvoptions_parse(struct hvd_rvoptions *o, int argc, char **argv, struct hvd_err *err)
{
	struct option longs[N_ROWS + 1] = {{0}};
	int opt, rc;

	for (size_t i = 0; i < N_ROWS; i++)
		longs[i] = (struct option){rows[i].name, rows[i].arg ? required_argument : no_argument, NULL,
					   rows[i].letter ? rows[i].letter : (int)(FIRST_LONG + i)};
	opterr = 0;
	while ((opt = getopt_long(argc, argv, ":vVh", longs, NULL)) != -1) {
		size_t i = 0;

		if (opt == ':')
			return hvd_err_set(err, HVD_E_USAGE, "%s needs a value", argv[optind - 1]);
		if (opt == '?')
			return hvd_err_set(err, HVD_E_USAGE, "unknown option %s", argv[optind - 1]);
		while (longs[i].val != opt)
			i++;
		if ((rc = take_option(o, &rows[i], optarg, err)) != 0)
			return rc;
	}
	if (optind < argc)
		return hvd_err_set(err, HVD_E_USAGE, "unexpected argument '%s'", argv[optind]);
	if (o->parent_fd >= 0 && fcntl(o->parent_fd, F_GETFD) < 0)
		return hvd_err_set(err, HVD_E_USAGE, "descriptor %d of --parent-fd is not open", o->parent_fd);
	if (o->binds.n == 0)
		hvd_strv_add(&o->binds, "127.0.0.1");
	return 0;
}

void hvd_rvoptions_init(struct hvd_rvoptions *o)
{
	memset(o, 0, sizeof(*o));
	o->parent_fd = -1;
	hvd_rv_config_init(&o->cfg);
	o->cfg.tcpstore = true;
}

void hvd_rvoptions_free(struct hvd_rvoptions *o)
{
	hvd_strv_free(&o->binds);
	hvd_strv_free(&o->allows);
	hvd_strv_free(&o->scopes);
}
