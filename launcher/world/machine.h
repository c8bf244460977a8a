/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machine.h - the state machine of an elastic job: gets events, and decides what the job does next.
 *
 * The machine has no clock, no sockets and no processes. Its owner reports each event and its time (hvd_machine_hosts,
 * …), and carries out the machine's decisions (struct hvd_machine_ops). Ops are called from within the
 * hvd_machine_… call that caused them, and must not call back into the machine.
 *
 * Terms: a host has slots; a worker is a process in a slot, with an id that no other worker of the job ever has; a
 * generation is a fixed set of workers, its members, which have ranks 0 to n-1.
 *
 * There are two policies. Both have the same hosts, generations and ops.
 *
 * Horovod's policy (policy_horovod.c, policy_horovod_training.c). Members that survive become members of the next
 * generation. Only they have the training state, which Horovod's rank 0 sends to all others.
 *
 * Phases of a job:
 *   waiting    hosts with a registered node agent have too few slots, or ready members need others before they can go
 *              on. Ends the job after elastic_timeout
 *   starting   a generation has begun: ranks are assigned, and the new workers are started. Ready members of the last
 *              generation wait at the rendezvous until each new worker has arrived there. A worker that
 *              cannot start does not affect them: they get ranks without it
 *   running    all members have their ranks. They connect to each other, and train
 *   over       the job has ended
 *
 * A generation ends in one of two ways. Either hosts change: for new hosts the workers of a next generation are started
 * while the current one trains, and rank 0 is notified when all of them have arrived; if hosts are gone, rank 0 is
 * notified at once. Then each member asks for its next rank (is ready) after its current batch. Or a member fails: its
 * peers notice that their connections broke, and ask for their next rank, too. Training never waits for new workers as
 * long as the survivors are enough: after a failure a generation of the survivors comes first, and a larger one follows
 * when the workers that fill it up have arrived.
 *
 * Failures:
 *   - A worker that ends with 0 ends the job, when all other members have ended or are ready.
 *   - A worker that fails bans its host, forever or for a cooldown that doubles with each failure. A host that the job
 *     needs is kept three times. SIGABRT after another member has failed bans no host, because Horovod aborts when
 *     its peers vanish.
 *   - When a member has died and another one is ready, the connections between the others are killed, since a member
 *     may block in a receive that nothing else would end soon. A member that stays silent after that is killed and
 *     replaced; the ready members have the committed state.
 *   - If a worker dies after it got its rank but before it published its address for the others (Gloo's rank_N key),
 *     its peers wait for that key. A replacement is started with the same rank and publishes the key in its place. If
 *     that is impossible, the job fails.
 *
 * Ranks: host by host, in the order in which the hosts joined the job; on a host by slot. Two exceptions keep a new
 * worker from becoming rank 0: hosts without a survivor follow the others, and on a host survivors come first.
 *
 * PyTorch's policy (policy_restart.c; opts.restart), as torchrun has it: the workers of a generation know nothing of
 * the launcher, and restore their state from their own checkpoint. A generation runs as soon as its workers are
 * started, and all of them are new.
 *   - A member fails, or is lost with its host: all others are ended, and a new generation on the current hosts begins
 *     when the last member has ended. After max_restarts restarts the next failure ends the job.
 *   - A member's host or slot is no longer part of the job: the same, but it does not count. If fewer than min_np ranks
 *     would be left, the generation goes on as long as its hosts remain.
 *   - There are new hosts: the same, and it does not count; but not in the first seconds of a generation, and once for
 *     hosts that appear together.
 *   - A member ends with 0: the others go on, and changes of hosts have no effect any more. The job ends when all
 *     members have ended. If one fails before that, all restart.
 *   - The ranks of hosts that stay keep their numbers. A host without ranks, as a spare one, takes the place of a host
 *     that has gone, the nearest one in the network: it gets its ranks. If the host comes back, it is the spare.
 *   - While ranks are being ended, all hosts are checked again. The next generation waits for that, for a moment.
 *   - A host that has had the first failure of two generations in a row, each soon after its start, is left out, if the
 *     others are enough. With a cooldown a host is left out after each failure.
 *   - Generations that a rank's failure ends before they have made any progress end the job when there are max_idle of
 *     them in a row. A generation that is ended by the loss of a host does not count. A failure that repeats one on
 *     another host (hvd_machine_repeats()) ends the job at once if the generation has made no progress.
 * Ops that are never called: answer, notify, kill_connections. Events that are ignored: arrived, connected, ready,
 * notified, kill_failed.
 */
#ifndef HVD_MACHINE_H
#define HVD_MACHINE_H

#include "lib/base/deadline.h"
#include "lib/base/err.h"
#include "lib/base/log.h"
#include "lib/host/alloc.h"
#include "lib/host/layout.h"

#include <stdbool.h>
#include <stdint.h>

/* The exit status of a job that has ended for want of progress. */
#define HVD_IDLE_STATUS 86

struct hvd_machine_opts {
	int np;     /* the first generation has at least this many ranks, unless a host is lost before it */
	int min_np; /* each later one; also the first one, after such a loss; 0 = np */
	int max_np; /* 0 = any number */
	int spares; /* so many of the first hosts have no rank at first: the worst ones (lib/host/spare_choice.h) */
	int reset_limit;  /* generations after the first, without those that fill up a smaller one; -1 = any number */
	bool restart;     /* PyTorch's policy; it has no reset limit */
	int max_restarts; /* PyTorch's policy: after so many failures at most; -1 = none, and nobody has asked for any */
	int max_idle;     /* PyTorch's policy: so many in a row without progress end the job; 0 = any number */
	/* A generation has made progress if it has lived for so many seconds; below 0: if hvd_machine_progress() says
	 * so. */
	double progress_after;
	bool hosts_stay; /* the first list of hosts is the only one, and a lost host never returns */
	bool hosts_end;  /* when the list of hosts is empty, it stays empty */
	bool hosts_come; /* the first list of hosts is only a beginning: np says how many ranks there are, not the list */
	/* Seconds. */
	double elastic_timeout; /* to wait for slots */
	/* To wait for a worker to arrive at the rendezvous, once others train; for the members of a generation to
	 * connect to each other; and for a worker to end, before its host is given up */
	double patience;
	double grace;                      /* between SIGTERM and SIGKILL, for a worker that is not killed at once */
	double cooldown_min, cooldown_max; /* of a banned host; 0: it stays banned */
	double silent_grace;               /* before a silent member is killed, if connections cannot be killed */
	double kill_grace;                 /* the same after its connections were killed */
	/* PyTorch's policy: how long the next generation waits for checks of hosts after the end of the last one; 0 =
	 * hosts are not checked. */
	double check_wait;
	double settle; /* how long the first generation waits for more hosts once there are enough */
	bool held;     /* PyTorch's policy: no generation begins before hvd_machine_release() */
};

enum hvd_worker_state {
	HVD_WORKER_STARTING, /* its process is being started, and has not arrived at the rendezvous */
	HVD_WORKER_ARRIVED,  /* it waits at the rendezvous for the other members */
	HVD_WORKER_RUNNING,
	HVD_WORKER_READY,  /* it waits at the rendezvous for its next rank */
	HVD_WORKER_ENDING, /* it is being ended */
	HVD_WORKER_GONE,
};

struct hvd_worker {
	uint32_t id;
	uint32_t host; /* its number, see hvd_machine_host() */
	int slot;      /* local rank */
	int rank;      /* in its generation; of a new worker: in the one that it was started for */
	enum hvd_worker_state state;
	bool fresh;            /* it has not been a member yet: it knows its rank only from its environment */
	bool published;        /* in this generation, its address for the others: they can connect to it */
	bool removed;          /* its host or slot is no longer part of the job */
	bool silent;           /* it is ended because others wait for it in vain */
	bool marked;           /* for searches: a member of the generation at hand */
	hvd_time ending_since; /* when the machine first saw it ENDING; 0 = not yet */
	bool failed;           /* it ended with a failure, and not because it was ended */
	bool success;          /* it ended with 0 */
	int status;            /* when it is gone; as from waitpid(2) */
};

/* Why a host's node agent has gone. */
enum hvd_host_end {
	HVD_HOST_LOST,  /* its connection broke, or it never registered: the host is used again after a cooldown, when
			 * discovery has dropped and listed it again, or, while there are fewer slots than np, when it
			 * can be reached after a pause, which doubles with each loss */
	HVD_HOST_UNFIT, /* it cannot take part: the host is never used again */
};

struct hvd_machine_ops {
	/* Start the host's node agent; hvd_machine_host_here() or hvd_machine_host_gone() follows. */
	void (*host_begin)(uint32_t host, void *arg);
	void (*host_end)(uint32_t host, void *arg); /* end the node agent; nothing needs to follow */
	/* The same, though workers that do not end are left there; they count as ended. */
	void (*host_give_up)(uint32_t host, void *arg);
	/* The ranks of a next generation are assigned (hvd_machine_layout). Its new workers are started after this
	 * call. A prepared generation may be given up; then its new workers are ended without another op. */
	void (*prepare)(void *arg);
	/* A generation begins (hvd_machine_member). With `prepared` it is the one that was prepared last, and its new
	 * workers have been started already; otherwise they are started after this call. */
	void (*generation)(bool prepared, void *arg);
	/* Start the worker; hvd_machine_exited() follows in any case. */
	void (*worker_start)(const struct hvd_worker *worker, void *arg);
	void (*worker_end)(const struct hvd_worker *worker, bool at_once, void *arg);
	void (*answer)(void *arg); /* answer all ready members with their ranks */
	/* Notify this worker, rank 0, that hosts have changed; hvd_machine_notified() follows. */
	void (*notify)(uint32_t worker, void *arg);
	/* Kill the connections between the members that are left, so that none of them waits for a dead one.
	 * hvd_machine_kill_failed() follows where that cannot be done. */
	void (*kill_connections)(void *arg);
	/* The job has ended, well if why->code is HVD_OK. Called once; no other op is called after it. Workers may be left. */
	void (*finish)(const struct hvd_err *why, int status, void *arg);
	/* PyTorch's policy: the ranks are being ended; check this host again meanwhile. hvd_machine_checked() follows, or
	 * hvd_machine_host_gone() if the host is bad. Not called without opts.check_wait. */
	void (*check)(uint32_t host, void *arg);
	/* The host is judged bad for this reason, which may have no effect here if the job needs it. May be NULL. */
	void (*host_bad)(uint32_t host, const char *why, void *arg);
	/* PyTorch's policy: the generation is ended, for this reason, and another one follows. May be NULL. */
	void (*restart)(const char *why, void *arg);
	/* The last rank of the generation has gone, and another one follows. May be NULL. */
	void (*over)(void *arg);
};

struct hvd_machine;

/* `ops` and `log` (may be NULL) are not owned. */
struct hvd_machine *hvd_machine_create(const struct hvd_machine_opts *opts, hvd_time now,
				       const struct hvd_machine_ops *ops, void *arg, const struct hvd_log *log);
void hvd_machine_destroy(struct hvd_machine *m); /* NULL is fine */

/* ---- events ---- */

/* The current hosts, in the order of their ranks. A host without slots only has a number: it is as good as not listed, but
 * if the list is empty without it, other hosts may still come (hosts_end). */
void hvd_machine_hosts(struct hvd_machine *m, const struct hvd_alloc *hosts, hvd_time now);
/* The host's node agent has registered, and reaches the others. */
void hvd_machine_host_here(struct hvd_machine *m, uint32_t host, hvd_time now);
/* Before that: where the host is in the network (lib/host/switch_path.h), NULL = not known; and how fast the network
 * to its neighbours is, in Mbit/s, 0 = not measured. Copied. */
void hvd_machine_network(struct hvd_machine *m, uint32_t host, const char *switch_path, double mbps);
void hvd_machine_host_gone(struct hvd_machine *m, uint32_t host, enum hvd_host_end how, hvd_time now);
/* The worker has published its address at the rendezvous. In its first generation that means that it has arrived. */
void hvd_machine_arrived(struct hvd_machine *m, uint32_t worker, hvd_time now);
/* All members of the generation have connected to each other: they no longer need the rendezvous for it. Before
 * this no worker is started for a next generation. */
void hvd_machine_connected(struct hvd_machine *m, hvd_time now);
void hvd_machine_ready(struct hvd_machine *m, uint32_t worker, hvd_time now);
void hvd_machine_exited(struct hvd_machine *m, uint32_t worker, int status, hvd_time now);
/* PyTorch's policy: the current generation has made progress, as by a checkpoint. */
void hvd_machine_progress(struct hvd_machine *m);
/* PyTorch's policy: the failure that ends the current generation is one of the program. It has occurred on another
 * host, too. */
void hvd_machine_repeats(struct hvd_machine *m);
/* SIGKILL does not end the worker. If the job can do without its host, the host is given up, and never used again. */
void hvd_machine_unkillable(struct hvd_machine *m, uint32_t worker, hvd_time now);
void hvd_machine_checked(struct hvd_machine *m, uint32_t host, hvd_time now); /* the host is good */
void hvd_machine_notified(struct hvd_machine *m, bool heard, hvd_time now);
void hvd_machine_kill_failed(struct hvd_machine *m, hvd_time now);
/* opts.held: generations may begin. */
void hvd_machine_release(struct hvd_machine *m, hvd_time now);
/* The job has failed for a reason outside, and ends with this status. */
void hvd_machine_fail(struct hvd_machine *m, const struct hvd_err *why, int status);
void hvd_machine_tick(struct hvd_machine *m, hvd_time now); /* it is hvd_machine_due() */

/* When hvd_machine_tick() is to be called next; 0 = not before something else happens. */
hvd_time hvd_machine_due(const struct hvd_machine *m);

/* ---- state ---- */

int hvd_machine_generation(const struct hvd_machine *m); /* its number; 0 before the first */
int hvd_machine_restarts(const struct hvd_machine *m);   /* PyTorch's policy: restarts after failures */
bool hvd_machine_too_few(const struct hvd_machine *m);   /* has the job ended because too few hosts are left? */
bool hvd_machine_lost(const struct hvd_machine *m, uint32_t host); /* is it lost, or unfit? */
/* Would the job end for want of slots without this host, since no other host comes? */
bool hvd_machine_needs(struct hvd_machine *m, uint32_t host, hvd_time now);
bool hvd_machine_checking(const struct hvd_machine *m, uint32_t host); /* is a check of it awaited? */
bool hvd_machine_idle(const struct hvd_machine *m);                    /* has the job ended for want of progress? */
/* The member of the current generation with this rank; NULL: none. */
const struct hvd_worker *hvd_machine_member(const struct hvd_machine *m, int rank);
/* Does the host have a rank of the current generation? */
bool hvd_machine_has_rank(const struct hvd_machine *m, uint32_t host);
/* Set busy[host] of the first `n` hosts if they have a rank of the current generation, or one that has not ended. */
void hvd_machine_busy_hosts(const struct hvd_machine *m, bool *busy, uint32_t n);
/* The i-th of the workers that are not long gone; NULL: there are not so many. */
const struct hvd_worker *hvd_machine_nth_worker(const struct hvd_machine *m, uint32_t i);
/* The worker that was started for this rank and has not been a member yet; NULL: none. */
const struct hvd_worker *hvd_machine_newcomer(const struct hvd_machine *m, int rank);
const struct hvd_worker *hvd_machine_worker(const struct hvd_machine *m, uint32_t id); /* NULL: none, or long gone */
/* The worker that lives, or dies, in this slot of a host; NULL: none. */
const struct hvd_worker *hvd_machine_worker_at(const struct hvd_machine *m, uint32_t host, int slot);
/* The layout of this generation, or of the next, over all hosts that the job has ever had, by number. Caller clears. */
int hvd_machine_layout(const struct hvd_machine *m, bool next, struct hvd_layout *layout, struct hvd_err *err);

uint32_t hvd_machine_n_hosts(const struct hvd_machine *m);                /* that the job has ever had */
const char *hvd_machine_host(const struct hvd_machine *m, uint32_t host); /* its name */
/* As discovery listed it last: */
int hvd_machine_slots(const struct hvd_machine *m, uint32_t host);
uint32_t hvd_machine_slurm_job(const struct hvd_machine *m, uint32_t host); /* 0: ours */

#endif
