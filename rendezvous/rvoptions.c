/* SPDX-License-Identifier: Apache-2.0 */
#include "rvoptions.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void usage(FILE *f)
{
	fputs("usage: hvd-rendezvous [OPTION]...\n"
	      "\n"
	      "Serve an HTTP key-value store for Gloo contexts to meet at, until SIGTERM or SIGINT.\n"
	      "\n"
	      "  --bind ADDR            listen on this address; may be repeated (default: 127.0.0.1)\n"
	      "  --port P | LO-HI       listen on this port, or the first free one of a range (default: 0, any)\n"
	      "  --allow ADDR[,ADDR...] let only these addresses connect, and this host's own processes\n"
	      "  --any-user             let other users' processes on this host connect, too\n"
	      "  --scope NAME=MEMBERS   remove a scope's values when so many members have deleted their key\n"
	      "  --hold SEC             how long a GET waits for its key (default: 1)\n"
	      "  --rank-hold SEC        the same for keys named rank_NUMBER (default: 30)\n"
	      "  --max-value BYTES      size of one value; K, M, G may follow (default: 256M)\n"
	      "  --max-total BYTES      size of everything that is stored (default: 4G)\n"
	      "  --max-keys N           keys of one scope (default: 262144)\n"
	      "  --max-scopes N         scopes (default: 65536)\n"
	      "  --max-connections N    open connections (default: 65536)\n"
	      "  --idle-exit SEC        end when nobody has connected for so long\n"
	      "  --parent-fd FD         end when this descriptor comes to its end\n"
	      "  --json                 print the start, and statistics at the end and on SIGUSR1, as JSON lines\n"
	      "  -v, --verbose          say more; twice: even more\n"
	      "  -V, --version          print the version\n"
	      "  -h, --help             print this\n",
	      f);
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

/* A count, with a suffix where bytes are meant. */
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

enum {
	OPT_BIND = 256,
	OPT_PORT,
	OPT_ALLOW,
	OPT_ANY_USER,
	OPT_SCOPE,
	OPT_HOLD,
	OPT_RANK_HOLD,
	OPT_MAX_VALUE,
	OPT_MAX_TOTAL,
	OPT_MAX_KEYS,
	OPT_MAX_SCOPES,
	OPT_MAX_CONNECTIONS,
	OPT_IDLE_EXIT,
	OPT_PARENT_FD,
	OPT_JSON,
};

static int take_option(struct hvd_rvoptions *o, int opt, const char *arg, struct hvd_err *err)
{
	uint64_t n;
	int rc;

	switch (opt) {
	case OPT_BIND:
		return add_list(&o->binds, "--bind", arg, err);
	case OPT_PORT:
		return parse_port(arg, &o->lo, &o->hi, err);
	case OPT_ALLOW:
		return add_list(&o->allows, "--allow", arg, err);
	case OPT_ANY_USER:
		o->any_user = true;
		return 0;
	case OPT_SCOPE: {
		const char *eq = strrchr(arg, '=');

		if (!eq || eq == arg || parse_count("--scope", eq + 1, false, UINT32_MAX, &n, err) != 0)
			return bad_value(err, "--scope", arg);
		hvd_strv_add(&o->scopes, arg);
		return 0;
	}
	case OPT_HOLD:
		return parse_seconds("--hold", arg, &o->cfg.get_wait, err);
	case OPT_RANK_HOLD:
		return parse_seconds("--rank-hold", arg, &o->cfg.rank_wait, err);
	case OPT_MAX_VALUE:
		rc = parse_count("--max-value", arg, true, SIZE_MAX / 2, &n, err);
		o->cfg.store.value_max = rc == 0 ? (size_t)n : 0;
		return rc;
	case OPT_MAX_TOTAL:
		rc = parse_count("--max-total", arg, true, SIZE_MAX / 2, &n, err);
		o->cfg.store.total_max = rc == 0 ? (size_t)n : 0;
		return rc;
	case OPT_MAX_KEYS:
		rc = parse_count("--max-keys", arg, false, UINT32_MAX, &n, err);
		o->cfg.store.scope_keys_max = rc == 0 ? (size_t)n : 0;
		return rc;
	case OPT_MAX_SCOPES:
		rc = parse_count("--max-scopes", arg, false, UINT32_MAX, &n, err);
		o->cfg.store.scopes_max = rc == 0 ? (size_t)n : 0;
		return rc;
	case OPT_MAX_CONNECTIONS:
		rc = parse_count("--max-connections", arg, false, 1 << 20, &n, err);
		o->cfg.conns_max = rc == 0 ? (unsigned)n : 0;
		return rc;
	case OPT_IDLE_EXIT:
		if (parse_seconds("--idle-exit", arg, &o->idle_exit, err) != 0)
			return -1;
		return o->idle_exit > 0 ? 0 : bad_value(err, "--idle-exit", arg);
	case OPT_PARENT_FD:
		if (parse_count("--parent-fd", strcmp(arg, "0") == 0 ? "1" : arg, false, 1 << 20, &n, err) != 0)
			return -1;
		o->parent_fd = strcmp(arg, "0") == 0 ? 0 : (int)n;
		return 0;
	case OPT_JSON:
		o->json = true;
		return 0;
	default:
		return hvd_err_set(err, HVD_E_USAGE, "unknown option");
	}
}

int hvd_rvoptions_parse(struct hvd_rvoptions *o, int argc, char **argv, struct hvd_err *err)
{
	static const struct option longs[] = {
		{"bind", required_argument, NULL, OPT_BIND},
		{"port", required_argument, NULL, OPT_PORT},
		{"allow", required_argument, NULL, OPT_ALLOW},
		{"any-user", no_argument, NULL, OPT_ANY_USER},
		{"scope", required_argument, NULL, OPT_SCOPE},
		{"hold", required_argument, NULL, OPT_HOLD},
		{"rank-hold", required_argument, NULL, OPT_RANK_HOLD},
		{"max-value", required_argument, NULL, OPT_MAX_VALUE},
		{"max-total", required_argument, NULL, OPT_MAX_TOTAL},
		{"max-keys", required_argument, NULL, OPT_MAX_KEYS},
		{"max-scopes", required_argument, NULL, OPT_MAX_SCOPES},
		{"max-connections", required_argument, NULL, OPT_MAX_CONNECTIONS},
		{"idle-exit", required_argument, NULL, OPT_IDLE_EXIT},
		{"parent-fd", required_argument, NULL, OPT_PARENT_FD},
		{"json", no_argument, NULL, OPT_JSON},
		{"verbose", no_argument, NULL, 'v'},
		{"version", no_argument, NULL, 'V'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	int opt;

	opterr = 0;
	while ((opt = getopt_long(argc, argv, ":vVh", longs, NULL)) != -1) {
		switch (opt) {
		case 'v':
			o->verbose++;
			break;
		case 'V':
			puts("hvd-rendezvous " HVD_VERSION);
			return 1;
		case 'h':
			usage(stdout);
			return 1;
		case ':':
			return hvd_err_set(err, HVD_E_USAGE, "%s needs a value", argv[optind - 1]);
		case '?':
			return hvd_err_set(err, HVD_E_USAGE, "unknown option %s", argv[optind - 1]);
		default:
			if (take_option(o, opt, optarg, err) != 0)
				return -1;
		}
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
}

void hvd_rvoptions_free(struct hvd_rvoptions *o)
{
	hvd_strv_free(&o->binds);
	hvd_strv_free(&o->allows);
	hvd_strv_free(&o->scopes);
}
