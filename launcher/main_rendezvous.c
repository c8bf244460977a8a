/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hvd-rendezvous - the rendezvous server on its own.
 */
#include "deadline.h"
#include "err.h"
#include "log.h"
#include "nofile.h"
#include "rendezvous/server.h"
#include "strv.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <jansson.h>
#include <math.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STOP_TIME 5.0

struct options {
	struct hvd_strv binds, allows, scopes;
	struct hvd_rv_config cfg;
	uint16_t lo, hi;
	bool any_user, json;
	double idle_exit; /* 0 = never */
	int parent_fd;    /* -1 = none */
	int verbose;
};

struct program {
	struct event_base *base;
	struct hvd_rv *rv;
	struct hvd_log log;
	bool json;
	double idle_exit;
	uint64_t seen; /* connections at the last look */
	hvd_time last_use;
	struct event *events[8];
	size_t n_events;
};

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

static int take_option(struct options *o, int opt, const char *arg, struct hvd_err *err)
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
		return parse_seconds("--hold", arg, &o->cfg.hold, err);
	case OPT_RANK_HOLD:
		return parse_seconds("--rank-hold", arg, &o->cfg.rank_hold, err);
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

/* 0: go on; 1: done, with success; -1: err */
static int parse_options(struct options *o, int argc, char **argv, struct hvd_err *err)
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

/* Whoever read our output may have gone; that is no reason to end. */
static void print_json(json_t *line)
{
	char *text = json_dumps(line, JSON_COMPACT);

	json_decref(line);
	if (text) {
		printf("%s\n", text);
		fflush(stdout);
	}
	free(text);
}

static void addr_text(const struct sockaddr_storage *ss, char host[NI_MAXHOST])
{
	if (getnameinfo((const struct sockaddr *)ss, sizeof(*ss), host, NI_MAXHOST, NULL, 0, NI_NUMERICHOST) != 0)
		strcpy(host, "?");
}

static void print_start(const struct program *p)
{
	json_t *addresses = json_array();
	struct sockaddr_storage ss;
	char host[NI_MAXHOST];
	unsigned port = hvd_rv_port(p->rv);

	for (size_t i = 0; hvd_rv_listener(p->rv, i, &ss) == 0; i++) {
		addr_text(&ss, host);
		if (p->json)
			json_array_append_new(addresses, json_string(host));
		else
			printf(strchr(host, ':') ? "listening on [%s]:%u\n" : "listening on %s:%u\n", host, port);
	}
	fflush(stdout);
	if (p->json)
		print_json(json_pack("{s:s, s:i, s:O, s:i}", "event", "listening", "pid", (int)getpid(), "addresses",
				     addresses, "port", (int)port));
	json_decref(addresses);
}

static void print_stats(const struct program *p)
{
	struct hvd_rv_stats s;

	hvd_rv_stats(p->rv, &s);
	if (!p->json) {
		printf("%llu requests on %llu connections: %llu GET, %llu PUT, %llu DELETE; %llu found, %llu not, %llu "
		       "errors; %llu waited\n",
		       (unsigned long long)s.requests, (unsigned long long)s.connections, (unsigned long long)s.gets,
		       (unsigned long long)s.puts, (unsigned long long)s.deletes, (unsigned long long)s.ok,
		       (unsigned long long)s.not_found, (unsigned long long)s.errors, (unsigned long long)s.held);
		fflush(stdout);
		return;
	}
#define I(name, value) #name, (json_int_t)(value)
	print_json(json_pack(
		"{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, "
		"s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
		"event", "statistics", I(connections, s.connections), I(requests, s.requests), I(gets, s.gets),
		I(puts, s.puts), I(deletes, s.deletes), I(ok, s.ok), I(not_found, s.not_found), I(errors, s.errors),
		I(held, s.held), I(refused_address, s.refused_address), I(refused_user, s.refused_user),
		I(refused_malformed, s.refused_malformed), I(refused_size, s.refused_size),
		I(refused_room, s.refused_room), I(timeouts, s.timeouts), I(hold_limit, s.hold_limit),
		I(paused, s.paused), I(bytes_in, s.bytes_in), I(bytes_out, s.bytes_out),
		I(connections_now, s.conns_now), I(connections_peak, s.conns_peak), I(held_peak, s.held_peak),
		I(stored_bytes, s.store.bytes), I(stored_bytes_peak, s.store.bytes_peak), I(stored_keys, s.store.keys),
		I(stored_scopes, s.store.scopes)));
#undef I
}

static void on_stopped(void *arg)
{
	struct program *p = arg;

	event_base_loopbreak(p->base);
}

static void stop(struct program *p, const char *why)
{
	hvd_verbose(&p->log, "ending: %s", why);
	hvd_rv_stop(p->rv, STOP_TIME, on_stopped, p);
}

static void on_signal(evutil_socket_t sig, short what, void *arg)
{
	(void)what;
	if (sig == SIGUSR1)
		print_stats(arg);
	else
		stop(arg, sig == SIGTERM ? "SIGTERM" : "SIGINT");
}

static void on_parent(evutil_socket_t fd, short what, void *arg)
{
	char buf[256];
	ssize_t n = read(fd, buf, sizeof(buf));

	(void)what;
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		stop(arg, "the parent has gone");
}

static void on_idle_look(evutil_socket_t fd, short what, void *arg)
{
	struct program *p = arg;
	struct hvd_rv_stats s;

	(void)fd;
	(void)what;
	hvd_rv_stats(p->rv, &s);
	if (s.connections != p->seen || s.conns_now > 0) {
		p->seen = s.connections;
		p->last_use = hvd_now();
	} else if (hvd_now() - p->last_use >= (hvd_time)(p->idle_exit * 1e9)) {
		stop(p, "nobody has connected for long enough");
	}
}

static int add_event(struct program *p, int fd, short what, event_callback_fn fn, double every, struct hvd_err *err)
{
	struct event *ev = event_new(p->base, fd, (short)(what | EV_PERSIST), fn, p);
	struct timeval tv = {.tv_sec = (time_t)every, .tv_usec = (suseconds_t)((every - (double)(time_t)every) * 1e6)};

	if (!ev || event_add(ev, every > 0 ? &tv : NULL) != 0)
		return hvd_err_set(err, HVD_E_SYS, "cannot register an event");
	p->events[p->n_events++] = ev;
	return 0;
}

static int add_events(struct program *p, const struct options *o, struct hvd_err *err)
{
	static const int sigs[] = {SIGTERM, SIGINT, SIGUSR1};

	for (size_t i = 0; i < sizeof(sigs) / sizeof(sigs[0]); i++)
		if (add_event(p, sigs[i], EV_SIGNAL, on_signal, 0, err) != 0)
			return -1;
	/* The descriptor's flags are shared with whoever has the other copies of it, so it stays blocking: it is read
	 * only when it is readable. A regular file cannot be waited for. */
	if (o->parent_fd >= 0 && add_event(p, o->parent_fd, EV_READ, on_parent, 0, err) != 0)
		return hvd_err_set(err, HVD_E_USAGE, "descriptor %d of --parent-fd is not a pipe or socket",
				   o->parent_fd);
	p->last_use = hvd_now();
	if (o->idle_exit > 0)
		return add_event(p, -1, 0, on_idle_look, o->idle_exit < 2 ? o->idle_exit / 4 : 0.5, err);
	return 0;
}

static int set_access(struct hvd_rv_access *ac, const struct options *o, struct hvd_err *err)
{
	hvd_rv_access_any_user(ac, o->any_user);
	for (size_t i = 0; i < o->allows.n; i++)
		if (hvd_rv_access_allow(ac, o->allows.v[i], err) != 0)
			return -1;
	return 0;
}

static int set_scopes(struct hvd_rv *rv, struct options *o, struct hvd_err *err)
{
	for (size_t i = 0; i < o->scopes.n; i++) {
		char *eq = strrchr(o->scopes.v[i], '=');
		int rc;

		*eq = '\0';
		rc = hvd_rv_scope_size(rv, o->scopes.v[i], (size_t)strtoull(eq + 1, NULL, 10), err);
		*eq = '=';
		if (rc != 0)
			return -1;
	}
	return 0;
}

static int run(struct program *p, struct options *o, struct hvd_err *err)
{
	p->base = event_base_new();
	if (!p->base)
		return hvd_err_set(err, HVD_E_SYS, "cannot make an event loop");
	p->rv = hvd_rv_create(p->base, &o->cfg, &p->log, err);
	if (!p->rv || set_scopes(p->rv, o, err) != 0 || add_events(p, o, err) != 0 ||
	    hvd_rv_listen(p->rv, (const char *const *)o->binds.v, o->binds.n, o->lo, o->hi, err) != 0)
		return -1;
	print_start(p);
	event_base_dispatch(p->base);
	print_stats(p);
	return 0;
}

int main(int argc, char **argv)
{
	struct options o = {.parent_fd = -1};
	struct program p = {.log = hvd_log_make("hvd-rendezvous", HVD_LOG_INFO)};
	struct hvd_err err = {0};
	int rc;

	hvd_rv_config_init(&o.cfg);
	rc = parse_options(&o, argc, argv, &err);
	if (rc < 0 && !err.hint[0])
		hvd_err_hint(&err, "See hvd-rendezvous --help.");
	if (rc == 0) {
		signal(SIGPIPE, SIG_IGN);
		hvd_raise_nofile();
		p.log.level = o.verbose > 1 ? HVD_LOG_DEBUG : o.verbose ? HVD_LOG_VERBOSE : HVD_LOG_INFO;
		p.json = o.json;
		p.idle_exit = o.idle_exit;
		o.cfg.access = hvd_rv_access_create();
		rc = set_access(o.cfg.access, &o, &err);
		if (rc == 0)
			rc = run(&p, &o, &err);
	}
	if (rc < 0)
		hvd_log_err(&p.log, &err);
	while (p.n_events > 0)
		event_free(p.events[--p.n_events]);
	hvd_rv_destroy(p.rv);
	hvd_rv_access_destroy(o.cfg.access);
	if (p.base)
		event_base_free(p.base);
	hvd_strv_free(&o.binds);
	hvd_strv_free(&o.allows);
	hvd_strv_free(&o.scopes);
	return rc < 0 ? hvd_err_status(&err) : 0;
}
