/* SPDX-License-Identifier: Apache-2.0 */
/*
 * runfunc.h - hands a function to every rank, and collects the results: hvdrun --run-func=FILE --results=FILE.
 *
 * What the file means is for the command to know. The rendezvous has the file's bytes at /runfunc/func; a rank PUTs its
 * result at /runfunc_result/<rank>, or a reason why there is none at /runfunc_error/<rank>. All three values begin with
 * a MAC of the launch (lib/protocol/func_key.h); a PUT without it is refused. What ranks send is not kept here, but is
 * written to the results at once, without the MAC. The results are a file, or a pipe or socket; when nobody reads the
 * pipe or socket any more, the job is ended. Each record is a line of JSON, and then `length` bytes:
 *   {"t":"result", "rank":R, "length":N}      the body of the first PUT of this rank
 *   {"t":"error", "rank":R, "length":N}       the same, of an error
 *   {"t":"exit", "rank":R, "host":H, "status":S, "how":TEXT, "length":0}   a rank failed; S as a shell has it,
 *                                             0 when all that it failed to do is to send a result
 *   {"t":"generation", "length":0}            of an elastic job: only what follows is of its latest ranks
 *   {"t":"end", "status":S, "started":B, "ranks":N, "length":0}            the last one; S is hvdrun's
 */
#ifndef HVD_RUNFUNC_H
#define HVD_RUNFUNC_H

#include "lib/base/err.h"
#include "lib/base/log.h"
#include "lib/host/layout.h"
#include "lib/protocol/auth.h"
#include "lib/rendezvous/server.h"

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Variables of a rank: the prefix of those that tell where the function is and which rank asks (driver_opts.h), and how
 * many bytes a result may have, without its MAC. */
#define HVD_RUNFUNC_SCOPE   "runfunc" /* of the rendezvous: where the function is */
#define HVD_RUNFUNC_ENV     "HVD_RUN_FUNC"
#define HVD_RUNFUNC_MAX_ENV HVD_RUNFUNC_ENV "_MAX"

struct hvd_runfunc;

/* Bytes that a function or a result may have: what the rendezvous takes as one value, less the MAC. */
size_t hvd_runfunc_max(void);

/* Read the function and open the results. Each of them is a path, or the number of a descriptor, which is closed in the
 * end. `gone` is called once, from the loop, when nobody reads the results any more. `base` and `log` must outlive
 * it. */
struct hvd_runfunc *hvd_runfunc_open(struct event_base *base, const char *func, const char *results,
				     void (*gone)(void *arg), void *arg, const struct hvd_log *log,
				     struct hvd_err *err);
void hvd_runfunc_close(struct hvd_runfunc *rf); /* after the server; NULL is fine */

/* An elastic job begins a new generation: what its ranks have sent before counts no longer. NULL is fine. */
void hvd_runfunc_generation(struct hvd_runfunc *rf);

/* Offer the function at this server, signed, and take results there. `rf` must outlive the server; the key of the
 * launch's session is copied. */
int hvd_runfunc_serve(struct hvd_runfunc *rf, struct hvd_rv *rv, const struct hvd_key *session_key,
		      struct hvd_err *err);

/* A rank has failed; status as from waitpid(2), 0 for a result that is missing. */
void hvd_runfunc_failed(struct hvd_runfunc *rf, uint32_t rank, const char *host, int status);

/* All ranks have ended with this status: fail when a rank of the layout (NULL: it never started) has sent no result,
 * and write what is left and the last record. Blocks as long as the reader reads. Returns the job's status; the user
 * was told why it is not the one passed. */
int hvd_runfunc_end(struct hvd_runfunc *rf, const struct hvd_layout *layout, int status, bool started);

#endif
