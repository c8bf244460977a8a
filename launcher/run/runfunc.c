/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lifetime: the function is in memory from open until the server has a copy; what goes to the results is in `out`
 * from its PUT until it is written, which a pipe's reader decides on.
 */
#include "runfunc.h"

#include "lib/base/xalloc.h"
#include "lib/process/spawn.h"
#include "lib/protocol/func_key.h"

#include <errno.h>
#include <event2/buffer.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SCOPE_FUNC   "runfunc"
#define SCOPE_RESULT "runfunc_result"
#define SCOPE_ERROR  "runfunc_error"

/* What the reader has not taken yet. Beyond that a PUT is answered 503, and the worker tries again. */
#define UNREAD_MAX ((size_t)1 << 30)
/* A reader that takes nothing for so long at the end is not going to. */
#define READER_SECONDS 60
/* No rank has a number of more digits. */
#define RANK_DIGITS 7

struct hvd_runfunc {
	const struct hvd_log *log;
	struct hvd_key key; /* once it is served */
	bool refused;       /* a value that was not of this launch, which was told */
	char *func;         /* room for the MAC, and the function behind it */
	size_t func_len;    /* of both */
	int fd;
	bool stream; /* a pipe or socket, written without blocking */
	struct evbuffer *out;
	struct event *hangup, *writable;
	void (*gone)(void *arg);
	void *arg;
	int failed; /* errno of the write that did not work */
	struct hvd_set {
		unsigned char *has; /* by rank */
		size_t n;
	} results, errors;
};

size_t hvd_runfunc_max(void)
{
	struct hvd_rv_config cfg;

	hvd_rv_config_init(&cfg);
	return cfg.store.value_max - HVD_FUNC_MAC_LEN;
}

/* ---- the function ---- */

static int read_all(int fd, char *data, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = pread(fd, data + at, len - at, (off_t)at);

		if (n <= 0 && !(n < 0 && errno == EINTR)) {
			errno = n < 0 ? errno : EIO; /* it has become shorter */
			return -1;
		}
		at += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

/* A path, or the number of a descriptor. */
static int open_or_own(const char *name, int flags)
{
	size_t digits = strspn(name, "0123456789");

	if (digits == 0 || name[digits])
		return open(name, flags | O_CLOEXEC | O_NOCTTY, 0600);
	if (digits > 6) {
		errno = EBADF;
		return -1;
	}
	return fcntl(atoi(name), F_SETFD, FD_CLOEXEC) == 0 ? atoi(name) : -1;
}

static int load(struct hvd_runfunc *rf, const char *name, struct hvd_err *err)
{
	int fd = open_or_own(name, O_RDONLY | O_NONBLOCK);
	const size_t max = hvd_runfunc_max();
	struct stat st;
	int rc = -1;

	if (fd < 0 || fstat(fd, &st) != 0) {
		hvd_err_sys(err, "cannot open the function %s (--run-func)", name);
	} else if (!S_ISREG(st.st_mode)) {
		hvd_err_set(err, HVD_E_USAGE, "--run-func=%s is not a file", name);
		hvd_err_hint(err, "its size must be known beforehand: write the function to a file");
	} else if ((uintmax_t)st.st_size > max) {
		hvd_err_set(err, HVD_E_USAGE,
			    "the function with its arguments has %jd bytes, and the rendezvous takes %zu at most",
			    (intmax_t)st.st_size, max);
		hvd_err_hint(err, "have the ranks read large data from files");
	} else {
		rf->func_len = HVD_FUNC_MAC_LEN + (size_t)st.st_size;
		rf->func = hvd_xcalloc(1, rf->func_len);
		rc = read_all(fd, rf->func + HVD_FUNC_MAC_LEN, rf->func_len - HVD_FUNC_MAC_LEN);
		if (rc != 0)
			hvd_err_sys(err, "cannot read the function %s (--run-func)", name);
	}
	if (rc != 0 && err)
		err->code = HVD_E_USAGE;
	if (fd >= 0)
		close(fd);
	return rc;
}

/* ---- the results ---- */

static void write_failed(struct hvd_runfunc *rf, int error)
{
	if (rf->failed)
		return;
	rf->failed = error;
	evbuffer_drain(rf->out, evbuffer_get_length(rf->out));
	if (rf->writable)
		event_del(rf->writable);
	if (rf->hangup)
		event_del(rf->hangup);
	hvd_error(rf->log, "the results cannot be written (--results): %s",
		  error == EPIPE       ? "nobody reads them any more"
		  : error == ETIMEDOUT ? "their reader takes nothing"
				       : strerror(error));
	if (rf->gone)
		rf->gone(rf->arg);
}

/* A pipe takes what it has room for, a file all. */
static void write_some(struct hvd_runfunc *rf)
{
	while (!rf->failed && evbuffer_get_length(rf->out) > 0) {
		int n = evbuffer_write(rf->out, rf->fd);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			break;
		if (n <= 0)
			write_failed(rf, n < 0 ? errno : EIO);
	}
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_runfunc *rf = arg;

	(void)fd;
	(void)what;
	write_some(rf);
	if (!rf->failed && evbuffer_get_length(rf->out) > 0)
		event_add(rf->writable, NULL);
}

/* Nothing is ever read here: an event is the reader's end, which poll(2) tells from bytes that nobody asked for. */
static void on_hangup(evutil_socket_t fd, short what, void *arg)
{
	struct pollfd p = {.fd = fd};
	struct hvd_runfunc *rf = arg;

	(void)what;
	if (poll(&p, 1, 0) > 0 && (p.revents & (POLLERR | POLLHUP)))
		write_failed(rf, EPIPE);
	else
		event_del(rf->hangup);
}

/* Takes the reference to `head`. */
static void add_record(struct hvd_runfunc *rf, json_t *head, const void *data, size_t len)
{
	char *line;

	json_object_set_new(head, "length", json_integer((json_int_t)len));
	line = json_dumps(head, JSON_COMPACT);
	json_decref(head);
	if (line && !rf->failed) {
		evbuffer_add(rf->out, line, strlen(line));
		evbuffer_add(rf->out, "\n", 1);
		if (evbuffer_add(rf->out, data, len) != 0)
			write_failed(rf, ENOMEM);
	}
	free(line);
	if (!rf->failed && rf->stream)
		event_add(rf->writable, NULL);
	else
		write_some(rf);
}

static int open_results(struct hvd_runfunc *rf, struct event_base *base, const char *name, struct hvd_err *err)
{
	struct stat st;

	rf->fd = open_or_own(name, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK);
	if (rf->fd < 0 || fstat(rf->fd, &st) != 0 || (fcntl(rf->fd, F_GETFL) & O_ACCMODE) == O_RDONLY) {
		if (rf->fd >= 0)
			errno = EBADF;
		hvd_err_sys(err, "cannot write to %s (--results)", name);
		hvd_err_hint(err, "it is a file that can be made, a pipe that is being read, or the number of an open "
				  "descriptor");
		if (err)
			err->code = HVD_E_USAGE;
		return -1;
	}
	rf->stream = S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode);
	rf->out = evbuffer_new();
	if (rf->stream) {
		evutil_make_socket_nonblocking(rf->fd);
		rf->hangup = event_new(base, rf->fd, EV_READ | EV_PERSIST, on_hangup, rf);
		rf->writable = event_new(base, rf->fd, EV_WRITE, on_writable, rf);
	}
	if (!rf->out || (rf->stream && (!rf->hangup || !rf->writable || event_add(rf->hangup, NULL) != 0)))
		return hvd_err_set(err, HVD_E_SYS, "cannot watch the results");
	return 0;
}

/* ---- ranks ---- */

static bool read_rank(struct hvd_slice key, uint32_t *rank)
{
	*rank = 0;
	if (key.n == 0 || key.n > RANK_DIGITS || (key.p[0] == '0' && key.n > 1))
		return false;
	for (size_t i = 0; i < key.n; i++) {
		if (key.p[i] < '0' || key.p[i] > '9')
			return false;
		*rank = *rank * 10 + (uint32_t)(key.p[i] - '0');
	}
	return true;
}

/* False if it was there already. */
static bool add_to_set(struct hvd_set *set, uint32_t rank)
{
	if (rank >= set->n) {
		size_t n = (size_t)rank + 64;

		set->has = hvd_xrealloc(set->has, n, 1);
		memset(set->has + set->n, 0, n - set->n);
		set->n = n;
	}
	if (set->has[rank])
		return false;
	set->has[rank] = 1;
	return true;
}

/* Whoever can reach the rendezvous can PUT: only what this launch's ranks have signed goes on. */
static bool of_this_launch(struct hvd_runfunc *rf, const char *type, uint32_t rank, const void *value, size_t len)
{
	char number[RANK_DIGITS + 1];

	snprintf(number, sizeof(number), "%u", (unsigned)rank);
	if (hvd_func_signed(&rf->key, type, number, value, len))
		return true;
	if (!rf->refused) {
		hvd_warn(rf->log,
			 "refused a value that somebody sent as the %s of rank %s: it does not carry this launch's MAC",
			 type, number);
		hvd_info(rf->log, "is another user's process on a host of the job? A command of your own must sign its "
				  "results, see FUNCTIONS in hvdrun(1)");
	}
	rf->refused = true;
	return false;
}

static int take(struct hvd_runfunc *rf, struct hvd_set *set, const char *type, struct hvd_slice key, const void *data,
		size_t len)
{
	size_t unread = evbuffer_get_length(rf->out);
	uint32_t rank;

	if (!read_rank(key, &rank))
		return 400;
	if (!of_this_launch(rf, type, rank, data, len))
		return 403;
	if (rf->failed)
		return 507;
	if (unread > 0 && unread + len > UNREAD_MAX)
		return 503;
	/* A second time: the answer to the first was lost on the way. */
	if (add_to_set(set, rank))
		add_record(rf, json_pack("{s:s, s:I}", "t", type, "rank", (json_int_t)rank),
			   (const char *)data + HVD_FUNC_MAC_LEN, len - HVD_FUNC_MAC_LEN);
	return rf->failed ? 507 : 200;
}

static int on_result(void *arg, struct hvd_slice key, const void *data, size_t len)
{
	struct hvd_runfunc *rf = arg;

	return take(rf, &rf->results, "result", key, data, len);
}

static int on_error(void *arg, struct hvd_slice key, const void *data, size_t len)
{
	struct hvd_runfunc *rf = arg;

	return take(rf, &rf->errors, "error", key, data, len);
}

static int refuse(void *arg, struct hvd_slice key, const void *data, size_t len)
{
	(void)arg;
	(void)key;
	(void)data;
	(void)len;
	return 403;
}

int hvd_runfunc_serve(struct hvd_runfunc *rf, struct hvd_rv *rv, const struct hvd_key *session_key, struct hvd_err *err)
{
	static const struct hvd_rv_hook func = {.put = refuse}, result = {.put = on_result}, error = {.put = on_error};

	rf->key = hvd_func_key(session_key);
	hvd_func_sign(&rf->key, "func", "", rf->func + HVD_FUNC_MAC_LEN, rf->func_len - HVD_FUNC_MAC_LEN, rf->func);
	if (hvd_rv_put(rv, SCOPE_FUNC, "func", rf->func, rf->func_len, err) != 0)
		return -1;
	free(rf->func);
	rf->func = NULL;
	hvd_rv_hook(rv, SCOPE_FUNC, &func, rf);
	hvd_rv_hook(rv, SCOPE_RESULT, &result, rf);
	hvd_rv_hook(rv, SCOPE_ERROR, &error, rf);
	return 0;
}

void hvd_runfunc_failed(struct hvd_runfunc *rf, uint32_t rank, const char *host, int status)
{
	char how[64];

	hvd_status_text(status, how, sizeof(how));
	add_record(rf,
		   json_pack("{s:s, s:I, s:s, s:i, s:s}", "t", "exit", "rank", (json_int_t)rank, "host", host, "status",
			     hvd_status_exit(status), "how", how),
		   "", 0);
}

bool hvd_runfunc_has(const struct hvd_runfunc *rf, uint32_t rank)
{
	return rank < rf->results.n && rf->results.has[rank];
}

/* ---- life ---- */

struct hvd_runfunc *hvd_runfunc_open(struct event_base *base, const char *func, const char *results,
				     void (*gone)(void *arg), void *arg, const struct hvd_log *log, struct hvd_err *err)
{
	struct hvd_runfunc *rf = hvd_xcalloc(1, sizeof(*rf));

	rf->fd = -1;
	rf->log = log;
	rf->gone = gone;
	rf->arg = arg;
	if (load(rf, func, err) == 0 && open_results(rf, base, results, err) == 0)
		return rf;
	hvd_runfunc_close(rf);
	return NULL;
}

int hvd_runfunc_end(struct hvd_runfunc *rf, int status, bool started, uint32_t ranks)
{
	struct pollfd p = {.fd = rf->fd, .events = POLLOUT};

	rf->gone = NULL; /* there is nothing left to be ended */
	add_record(rf,
		   json_pack("{s:s, s:i, s:b, s:I}", "t", "end", "status", status, "started", started, "ranks",
			     (json_int_t)ranks),
		   "", 0);
	while (write_some(rf), evbuffer_get_length(rf->out) > 0) {
		int n = poll(&p, 1, READER_SECONDS * 1000);

		if (n == 0 || (n < 0 && errno != EINTR))
			write_failed(rf, n == 0 ? ETIMEDOUT : errno);
	}
	return rf->failed ? -1 : 0;
}

void hvd_runfunc_close(struct hvd_runfunc *rf)
{
	if (!rf)
		return;
	if (rf->hangup)
		event_free(rf->hangup);
	if (rf->writable)
		event_free(rf->writable);
	if (rf->out)
		evbuffer_free(rf->out);
	if (rf->fd >= 0)
		close(rf->fd);
	free(rf->func);
	explicit_bzero(&rf->key, sizeof(rf->key));
	free(rf->results.has);
	free(rf->errors.has);
	free(rf);
}
