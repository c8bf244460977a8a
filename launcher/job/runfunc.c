/* SPDX-License-Identifier: Apache-2.0 */
/*
 * runfunc.c - the function is in memory from open until the rendezvous has a copy. A record for the results is in `out`
 * until it is written; for a pipe that depends on its reader.
 */
#include "runfunc.h"

#include "lib/base/digits.h"
#include "lib/base/xalloc.h"
#include "lib/process/spawn.h"
#include "lib/protocol/func_key.h"
#include "results.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SCOPE_RESULT "runfunc_result"
#define SCOPE_ERROR  "runfunc_error"

/* Bytes that the reader has not taken yet. Beyond that a PUT is answered 503, and the rank tries again. */
#define UNREAD_MAX ((size_t)1 << 30)
/* No rank has a higher number. */
#define MOST_RANK 9999999

struct hvd_runfunc {
	const struct hvd_log *log;
	struct hvd_key key; /* set when the function is served */
	bool refused;       /* a value without the launch's MAC was refused, and the user told */
	char *func;         /* room for the MAC, and the function behind it */
	size_t func_len;    /* of both */
	struct hvd_results *out;
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

static int load(struct hvd_runfunc *rf, const char *name, struct hvd_err *err)
{
	int fd = hvd_open_or_take(name, O_RDONLY | O_NONBLOCK);
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

/* ---- ranks ---- */

/* False if the rank was in the set already. */
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

/* Anybody who can reach the rendezvous can PUT: only values that this launch's ranks have signed are accepted. */
static bool of_this_launch(struct hvd_runfunc *rf, const char *type, uint32_t rank, const void *value, size_t len)
{
	char number[16];

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
	const size_t unread = hvd_results_unread(rf->out);
	const int64_t number = key.n > 1 && key.p[0] == '0' ? -1 : hvd_digits(key.p, key.n, MOST_RANK);
	const uint32_t rank = (uint32_t)number;

	if (number < 0)
		return 400;
	if (!of_this_launch(rf, type, rank, data, len))
		return 403;
	if (hvd_results_failed(rf->out))
		return 507;
	if (unread > 0 && unread + len > UNREAD_MAX)
		return 503;
	/* A rank PUTs again when the answer to its first PUT was lost: that is no new record. */
	if (add_to_set(set, rank))
		hvd_results_add(rf->out, json_pack("{s:s, s:I}", "t", type, "rank", (json_int_t)rank),
				(const char *)data + HVD_FUNC_MAC_LEN, len - HVD_FUNC_MAC_LEN);
	return hvd_results_failed(rf->out) ? 507 : 200;
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
	if (hvd_rv_put(rv, HVD_RUNFUNC_SCOPE, "func", rf->func, rf->func_len, err) != 0)
		return -1;
	hvd_rv_lasting(rv, HVD_RUNFUNC_SCOPE);
	free(rf->func);
	rf->func = NULL;
	hvd_rv_hook(rv, HVD_RUNFUNC_SCOPE, &func, rf);
	hvd_rv_hook(rv, SCOPE_RESULT, &result, rf);
	hvd_rv_hook(rv, SCOPE_ERROR, &error, rf);
	return 0;
}

static void empty_set(struct hvd_set *set)
{
	if (set->n)
		memset(set->has, 0, set->n);
}

void hvd_runfunc_generation(struct hvd_runfunc *rf)
{
	if (!rf)
		return;
	empty_set(&rf->results);
	empty_set(&rf->errors);
	hvd_results_add(rf->out, json_pack("{s:s}", "t", "generation"), "", 0);
}

void hvd_runfunc_failed(struct hvd_runfunc *rf, uint32_t rank, const char *host, int status)
{
	char how[64];

	hvd_status_text(status, how, sizeof(how));
	hvd_results_add(rf->out,
			json_pack("{s:s, s:I, s:s, s:i, s:s}", "t", "exit", "rank", (json_int_t)rank, "host", host,
				  "status", hvd_status_exit(status), "how", how),
			"", 0);
}

/* ---- life ---- */

struct hvd_runfunc *hvd_runfunc_open(struct event_base *base, const char *func, const char *results,
				     void (*gone)(void *arg), void *arg, const struct hvd_log *log, struct hvd_err *err)
{
	struct hvd_runfunc *rf = hvd_xcalloc(1, sizeof(*rf));

	rf->log = log;
	if (load(rf, func, err) == 0 && (rf->out = hvd_results_open(base, results, gone, arg, log, err)))
		return rf;
	hvd_runfunc_close(rf);
	return NULL;
}

/* How many ranks have not sent a result; *first is the first of them. */
static int count_missing(const struct hvd_runfunc *rf, const struct hvd_layout *l, int *first)
{
	int n = 0;

	for (int r = l->size - 1; r >= 0; r--)
		if ((size_t)r >= rf->results.n || !rf->results.has[r]) {
			n++;
			*first = r;
		}
	return n;
}

int hvd_runfunc_end(struct hvd_runfunc *rf, const struct hvd_layout *l, int status, bool started)
{
	struct hvd_err why = {0};
	json_t *last;
	int first = 0, missing = l && status == 0 ? count_missing(rf, l, &first) : 0;

	if (missing) {
		hvd_err_set(&why, HVD_E_FAILED, "rank %d ended without a result (%d of %d ranks did)", first, missing,
			    l->size);
		hvd_err_hint(&why, "the command must PUT one at /runfunc_result/%d before it ends; see hvdrun(1)",
			     first);
		hvd_err_host(&why, l->hosts[l->rank_slots[first].host].name);
		hvd_log_err(rf->log, &why);
		hvd_runfunc_failed(rf, (uint32_t)first, why.host, 0);
		status = 1;
	}
	last = json_pack("{s:s, s:i, s:b, s:I}", "t", "end", "status", status, "started", started, "ranks",
			 (json_int_t)(l ? l->size : 0));
	return hvd_results_finish(rf->out, last) != 0 && status == 0 ? 1 : status;
}

void hvd_runfunc_close(struct hvd_runfunc *rf)
{
	if (!rf)
		return;
	hvd_results_close(rf->out);
	free(rf->func);
	explicit_bzero(&rf->key, sizeof(rf->key));
	free(rf->results.has);
	free(rf->errors.has);
	free(rf);
}
