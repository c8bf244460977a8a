/* SPDX-License-Identifier: Apache-2.0 */
#include "squeue.h"

#include "lib/base/cleanup.h"
#include "lib/base/digits.h"
#include "lib/base/random.h"
#include "lib/base/size.h"
#include "lib/base/xalloc.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* No user has more jobs that run. */
#define MAX_JOBS 1000000

void hvd_slurm_job_clear(struct hvd_slurm_job *job)
{
	if (!job)
		return;
	hvd_strv_free(&job->hosts);
	free(job->gpus);
	free(job->name);
	free(job->comment);
	free(job->grace_of);
	free(job->rerun.required);
	free(job->rerun.reservation);
	memset(job, 0, sizeof(*job));
}

void hvd_slurm_jobs_free(struct hvd_slurm_job *jobs, size_t n)
{
	for (size_t i = 0; i < n; i++)
		hvd_slurm_job_clear(&jobs[i]);
	free(jobs);
}

/* In this order in the output. The texts of users come last. */
enum field {
	F_ID,
	F_STATE,
	F_ARRAY,
	F_TASK,
	F_HET,
	F_BATCH,
	F_REQUEUE,
	F_RESTARTS,
	F_N_NODES,
	F_TASKS,
	F_PER_NODE,
	F_START,
	F_END,
	F_PREEMPTED,
	F_USED,
	F_EXIT,
	F_REASON,
	F_PARTITION,
	F_NODES,
	F_REQUIRED,
	F_RESERVATION,
	F_NAME,
	F_COMMENT,
	FIELDS
};

static const char *const names[FIELDS] = {
	[F_ID] = "jobid",         [F_STATE] = "state",           [F_ARRAY] = "arrayjobid",
	[F_TASK] = "arraytaskid", [F_HET] = "hetjobid",          [F_BATCH] = "batchflag",
	[F_REQUEUE] = "requeue",  [F_RESTARTS] = "restartcnt",   [F_N_NODES] = "numnodes",
	[F_TASKS] = "numtasks",   [F_PER_NODE] = "ntpernode",    [F_START] = "starttime",
	[F_END] = "endtime",      [F_PREEMPTED] = "preempttime", [F_USED] = "timeused",
	[F_EXIT] = "exit_code",   [F_REASON] = "reason",         [F_PARTITION] = "partition",
	[F_NODES] = "nodelist",   [F_REQUIRED] = "reqnodes",     [F_RESERVATION] = "reservation",
	[F_NAME] = "name",        [F_COMMENT] = "comment",
};

/* The states that squeue prints. Some are flags that hide the state itself: all but COMPLETING and STAGE_OUT do so for
 * jobs of one kind only. */
static const struct {
	const char *name;
	enum hvd_slurm_state state;
	const char *fate;
} states[] = {
	{"PENDING", HVD_SLURM_PENDING, NULL},
	{"REQUEUED", HVD_SLURM_PENDING, NULL},
	{"REQUEUED_CRON", HVD_SLURM_PENDING, NULL},
	{"REQUEUE_FED", HVD_SLURM_PENDING, NULL},
	{"REQUEUE_HOLD", HVD_SLURM_PENDING, NULL},
	{"RESV_DEL_HOLD", HVD_SLURM_PENDING, NULL},
	{"SPECIAL_EXIT", HVD_SLURM_PENDING, NULL},
	{"EXPEDITING", HVD_SLURM_PENDING, NULL},
	{"RUNNING", HVD_SLURM_RUNNING, NULL},
	{"CONFIGURING", HVD_SLURM_RUNNING, NULL},
	{"SUSPENDED", HVD_SLURM_RUNNING, NULL},
	{"RESIZING", HVD_SLURM_RUNNING, NULL},
	{"SIGNALING", HVD_SLURM_RUNNING, NULL},
	{"STOPPED", HVD_SLURM_RUNNING, NULL},
	{"CANCELLED", HVD_SLURM_ENDED, HVD_SLURM_CANCELLED},
	{"TIMEOUT", HVD_SLURM_ENDED, "has reached its time limit"},
	{"PREEMPTED", HVD_SLURM_ENDED, "was preempted"},
	{"NODE_FAIL", HVD_SLURM_ENDED, "has lost a node"},
	{"DEADLINE", HVD_SLURM_ENDED, "has reached its deadline"},
	{"OUT_OF_MEMORY", HVD_SLURM_ENDED, "has used up its memory"},
};

/* The reasons that Slurm gives to a job with its end, and the state that the job then has. */
static const char *const reasons[][2] = {
	{"TimeLimit", "TIMEOUT"},
	{"NodeDown", "NODE_FAIL"},
	{"DeadLine", "DEADLINE"},
	{"OutOfMemory", "OUT_OF_MEMORY"},
};

int hvd_squeue_mark_make(struct hvd_squeue_mark *mark, struct hvd_err *err)
{
	uint64_t number = 0;

	/* The first character ends the width in front of it, "0". */
	if (hvd_random(&number, sizeof(number), err) != 0)
		return -1;
	snprintf(mark->text, sizeof(mark->text), "<%016" PRIx64 ">", number);
	return 0;
}

char *hvd_squeue_format(const struct hvd_squeue_mark *mark)
{
	char *format = hvd_xstrdup("");

	/* Width 0 is the whole value. */
	for (int i = 0; i < FIELDS; i++)
		hvd_xappendf(&format, "%s%s:0%s", i ? "," : "", names[i], mark->text);
	return format;
}

/* A field of the text. */
struct value {
	const char *at;
	size_t len;
};

/* Take the next field off the text. False: none is left, or its end is missing. */
static bool take(const char **text, const struct hvd_squeue_mark *mark, struct value *out)
{
	const char *end = strstr(*text, mark->text);

	if (!end)
		return false;
	out->at = *text;
	out->len = (size_t)(end - *text);
	*text = end + strlen(mark->text);
	return true;
}

static bool is(struct value v, const char *word)
{
	return v.len == strlen(word) && memcmp(v.at, word, v.len) == 0;
}

/* "(null)" stands for none. */
static char *text_of(struct value v)
{
	return is(v, "(null)") ? hvd_xstrdup("") : hvd_xstrndup(v.at, v.len);
}

/* A number; 0 for "N/A" and for a number that stands for none, such as 4294967294. */
static uint32_t count_of(struct value v, int64_t most)
{
	const int64_t n = hvd_digits(v.at, v.len, most);

	return n > 0 ? (uint32_t)n : 0;
}

/* Seconds since 1970; 0 for "N/A", "Unknown", "NONE" and the like. */
static int64_t time_of(struct value v)
{
	const int64_t n = hvd_digits(v.at, v.len, INT64_MAX / 2);

	return n > 0 ? n : 0;
}

/* "15", later "0:15". */
static bool has_failed(struct value exit)
{
	for (size_t i = 0; i < exit.len; i++)
		if (exit.at[i] >= '1' && exit.at[i] <= '9')
			return true;
	return false;
}

/*
 * The state that a job will have after COMPLETING, which squeue does not print before all of its processes have ended:
 *   that of a pending job, if it was requeued: Slurm counts that, and its time starts again;
 *   that of a preempted one, or of its reason, if there is one;
 *   none that matters, if its reason is another: the job's script has failed;
 *   CANCELLED, if it has no reason, but an exit code: Slurm's SIGTERM has ended the script.
 * The rest is open (`doubtful`): the job was cancelled, or has ended well.
 */
static const char *completing(const struct value f[FIELDS], struct hvd_slurm_job *out)
{
	if (is(f[F_USED], "0:00") && count_of(f[F_RESTARTS], UINT32_MAX) > 0)
		return "PENDING";
	if (time_of(f[F_PREEMPTED]))
		return "PREEMPTED";
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (is(f[F_REASON], reasons[i][0]))
			return reasons[i][1];
	if (!is(f[F_REASON], "None"))
		return "COMPLETED";
	if (has_failed(f[F_EXIT]))
		return "CANCELLED";
	out->doubtful = true;
	return "COMPLETED";
}

static void take_state(const struct value f[FIELDS], struct hvd_slurm_job *out)
{
	struct value state = f[F_STATE];

	if (is(state, "COMPLETING")) {
		state.at = completing(f, out);
		state.len = strlen(state.at);
	}
	out->state = HVD_SLURM_ENDED;
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
		if (is(state, states[i].name)) {
			out->state = states[i].state;
			out->fate = states[i].fate;
		}
	out->paused = is(state, "SUSPENDED") || is(state, "CONFIGURING");
	out->preempted = time_of(f[F_PREEMPTED]) && (out->state != HVD_SLURM_ENDED || is(state, "PREEMPTED"));
}

static void take_rerun(const struct value f[FIELDS], const struct hvd_slurm_job *job, struct hvd_slurm_rerun *out)
{
	const int64_t task = hvd_digits(f[F_TASK].at, f[F_TASK].len, UINT32_MAX - 2);

	out->batch = count_of(f[F_BATCH], UINT16_MAX) != 0;
	out->allowed = count_of(f[F_REQUEUE], UINT16_MAX) != 0;
	out->restarts = count_of(f[F_RESTARTS], UINT32_MAX);
	if (task >= 0)
		snprintf(out->name, sizeof(out->name), "%u_%u", (unsigned)count_of(f[F_ARRAY], UINT32_MAX),
			 (unsigned)task);
	else
		snprintf(out->name, sizeof(out->name), "%u", job->het ? (unsigned)job->het : (unsigned)job->id);
	out->nodes = count_of(f[F_N_NODES], UINT32_MAX);
	out->required = text_of(f[F_REQUIRED]);
	out->reservation = text_of(f[F_RESERVATION]);
}

static int take_job(const struct value f[FIELDS], struct hvd_slurm_job *out, struct hvd_err *err)
{
	hvd_cleanup_free char *nodes = text_of(f[F_NODES]);

	out->id = count_of(f[F_ID], UINT32_MAX);
	out->het = count_of(f[F_HET], UINT32_MAX);
	out->name = text_of(f[F_NAME]);
	out->comment = text_of(f[F_COMMENT]);
	out->tasks_per_node = (int)count_of(f[F_PER_NODE], HVD_MAX_RANKS);
	out->tasks = (int)count_of(f[F_TASKS], HVD_MAX_RANKS);
	out->began = time_of(f[F_START]);
	out->ends = time_of(f[F_END]);
	take_state(f, out);
	/* Of a job without a time limit squeue prints no end, even if it has one by its preemption. */
	if (out->preempted && out->state == HVD_SLURM_RUNNING && !out->ends) {
		out->ends = time_of(f[F_PREEMPTED]);
		out->grace_of = text_of(f[F_PARTITION]);
	}
	take_rerun(f, out, &out->rerun);
	if (!out->id)
		return hvd_err_set(err, HVD_E_PROTO, "squeue prints no number of a job");
	return *nodes ? hvd_hostlist_expand(nodes, HVD_MAX_HOSTS, &out->hosts, err) : 0;
}

/* Take one job off the text. */
static int parse_job(const char **text, const struct hvd_squeue_mark *mark, struct hvd_slurm_job *out,
		     struct hvd_err *err)
{
	struct value f[FIELDS];

	for (int i = 0; i < FIELDS; i++)
		if (!take(text, mark, &f[i]))
			return hvd_err_set(err, HVD_E_PROTO, "squeue has printed a part of a job");
	return take_job(f, out, err);
}

int hvd_squeue_jobs_parse(const char *text, const struct hvd_squeue_mark *mark, struct hvd_slurm_job **jobs, size_t *n,
			  struct hvd_err *err)
{
	size_t room = 0;
	int rc = 0;

	*jobs = NULL;
	*n = 0;
	while (rc == 0 && text[strspn(text, " \n")]) {
		text += strspn(text, " \n");
		if (*n == MAX_JOBS) {
			rc = hvd_err_set(err, HVD_E_LIMIT, "squeue prints more than %d jobs", MAX_JOBS);
			break;
		}
		if (*n == room)
			*jobs = hvd_xrealloc(*jobs, room = room ? room * 2 : 4, sizeof(**jobs));
		(*jobs)[*n] = (struct hvd_slurm_job){0};
		rc = parse_job(&text, mark, &(*jobs)[*n], err);
		++*n;
	}
	if (rc == 0)
		return 0;
	hvd_slurm_jobs_free(*jobs, *n);
	*jobs = NULL;
	*n = 0;
	return -1;
}

char *hvd_squeue_field(const char *text, const struct hvd_squeue_mark *mark)
{
	struct value v;

	if (!take(&text, mark, &v))
		return NULL;
	while (v.len > 0 && isspace((unsigned char)v.at[0])) {
		v.at++;
		v.len--;
	}
	while (v.len > 0 && isspace((unsigned char)v.at[v.len - 1]))
		v.len--;
	return text_of(v);
}
