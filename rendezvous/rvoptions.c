/* SPDX-License-Identifier: Apache-2.0 */
#include "rvoptions.h"

#include "lib/base/option_rows.h"
#include "lib/base/values.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int bad_value(struct hvd_err *err, const char *option, const char *value)
{
	return hvd_err_set(err, HVD_E_USAGE, "bad value '%s' for %s", value, option);
}

static int read_list(void *at, const char *from, const char *text, struct hvd_err *err)
{
	return hvd_value_list(from, text, at, err);
}

static int read_seconds(void *at, const char *from, const char *text, struct hvd_err *err)
{
	return hvd_value_seconds(from, text, 0, 1e8, at, err);
}

static int read_some_seconds(void *at, const char *from, const char *text, struct hvd_err *err)
{
	return hvd_value_seconds(from, text, 0.001, 1e8, at, err);
}

static int read_count(void *at, const char *from, const char *text, struct hvd_err *err)
{
	int n;

	if (hvd_value_int(from, text, 1, INT_MAX, &n, err) != 0)
		return -1;
	*(size_t *)at = (size_t)n;
	return 0;
}

static int read_connections(void *at, const char *from, const char *text, struct hvd_err *err)
{
	int n;

	if (hvd_value_int(from, text, 1, 1 << 20, &n, err) != 0)
		return -1;
	*(unsigned *)at = (unsigned)n;
	return 0;
}

/* A number of bytes, with K, M or G behind it or not. */
static int read_bytes(void *at, const char *from, const char *text, struct hvd_err *err)
{
	static const char units[] = "KMG";
	const char *unit;
	char *end;
	uint64_t n;
	unsigned shift = 0;

	errno = 0;
	n = strtoull(text, &end, 10);
	unit = *end ? strchr(units, *end) : NULL;
	if (unit)
		shift = 10 * (unsigned)(unit - units + 1);
	if (text[0] < '0' || text[0] > '9' || errno != 0 || n == 0 || n > (SIZE_MAX / 2) >> shift ||
	    end[unit != NULL] != '\0')
		return bad_value(err, from, text);
	*(size_t *)at = (size_t)n << shift;
	return 0;
}

/* P, or LO-HI. */
static int read_port(void *at, const char *from, const char *text, struct hvd_err *err)
{
	struct hvd_rv_ports *ports = at;
	const char *dash = strchr(text, '-');
	char low[8];
	int lo, hi;

	snprintf(low, sizeof(low), "%.*s", dash ? (int)(dash - text) : 7, text);
	if (hvd_value_int(from, low, 0, 65535, &lo, err) != 0 ||
	    hvd_value_int(from, dash ? dash + 1 : text, 0, 65535, &hi, err) != 0)
		return -1;
	if (lo > hi || (lo == 0 && hi != 0))
		return bad_value(err, from, text);
	*ports = (struct hvd_rv_ports){.lo = (uint16_t)lo, .hi = (uint16_t)hi};
	return 0;
}

static int read_scope(void *at, const char *from, const char *text, struct hvd_err *err)
{
	const char *eq = strrchr(text, '=');
	int n;

	if (!eq || eq == text || hvd_value_int(from, eq + 1, 1, INT_MAX, &n, NULL) != 0)
		return bad_value(err, from, text);
	hvd_strv_add(at, text);
	return 0;
}

static int read_off(void *at, const char *from, const char *text, struct hvd_err *err)
{
	(void)from;
	(void)text;
	(void)err;
	*(bool *)at = false;
	return 0;
}

static int read_again(void *at, const char *from, const char *text, struct hvd_err *err)
{
	(void)from;
	(void)text;
	(void)err;
	*(int *)at += *(int *)at < 2;
	return 0;
}

#define AT(member) offsetof(struct hvd_rvoptions, member)

/* In the order of --help. */
static const struct hvd_option_row rows[] = {
	{"bind", "ADDR", "listen on this address; may be repeated (default: 127.0.0.1)", read_list, AT(binds)},
	{"port", "P|LO-HI", "listen on this port, or the first free one of a range (default: 0, any)", read_port,
	 AT(port)},
	{"allow", "ADDR[,ADDR...]", "let only these addresses connect, and this host's own processes", read_list,
	 AT(allows)},
	{"any-user", NULL, "let other users' processes on this host connect, too", hvd_option_flag, AT(any_user)},
	{"no-tcpstore", NULL, "do not serve PyTorch's TCPStore", read_off, AT(cfg.tcpstore)},
	{"ranks", "N", "how many ranks PyTorch's init_process_group() has (default: not known)", read_count, AT(ranks)},
	{"scope", "NAME=MEMBERS", "remove a scope's values after this many members have deleted their key", read_scope,
	 AT(scopes)},
	{"hold", "SEC", "how long a GET waits for its key (default: 1)", read_seconds, AT(cfg.get_wait)},
	{"rank-hold", "SEC", "the same for keys named rank_NUMBER (default: 30)", read_seconds, AT(cfg.rank_wait)},
	{"max-value", "BYTES", "size of one value; K, M, G may follow (default: 256M)", read_bytes,
	 AT(cfg.store.value_max)},
	{"max-total", "BYTES", "size of all stored values (default: 4G)", read_bytes, AT(cfg.store.total_max)},
	{"max-keys", "N", "keys of one scope (default: 262144)", read_count, AT(cfg.store.scope_keys_max)},
	{"max-scopes", "N", "scopes (default: 65536)", read_count, AT(cfg.store.scopes_max)},
	{"max-connections", "N", "open connections (default: 65536)", read_connections, AT(cfg.conns_max)},
	{"idle-exit", "SEC", "end after this time without a connection", read_some_seconds, AT(idle_exit)},
	{"parent-fd", "FD", "end when this descriptor reaches end of file", hvd_option_number, AT(parent_fd)},
	{"json", NULL, "print the start, and statistics at the end and on SIGUSR1, as JSON lines", hvd_option_flag,
	 AT(json)},
	{"v,verbose", NULL, "print more; twice: even more", read_again, AT(verbose)},
	{"V,version", NULL, "print the version", hvd_option_flag, AT(version)},
	{NULL, NULL, NULL, NULL, 0},
};

static void usage(void)
{
	printf("usage: hvd-rendezvous [OPTION]...\n\nServe a key-value store through which ranks rendezvous, until "
	       "SIGTERM or SIGINT: over HTTP, for Gloo\ncontexts, and as the TCPStore of PyTorch.\n\n");
	hvd_option_rows_print(stdout, rows);
}

int hvd_rvoptions_parse(struct hvd_rvoptions *o, int argc, char **argv, struct hvd_err *err)
{
	char **operands;
	int rc = hvd_option_rows_parse(rows, NULL, false, argc, argv, o, &operands, err);

	if (rc > 0)
		usage();
	if (rc != 0)
		return rc;
	if (o->version) {
		puts("hvd-rendezvous " HVD_VERSION);
		return 1;
	}
	if (*operands)
		return hvd_err_set(err, HVD_E_USAGE, "unexpected argument '%s'", *operands);
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
