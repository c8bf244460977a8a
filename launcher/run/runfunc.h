/* SPDX-License-Identifier: Apache-2.0 */
/*
 * runfunc.h - a function for every rank, and what each rank makes of it: hvdrun --run-func=FILE --results=FILE.
 *
 * What the function is, and in which language, is between the file and the command. The server has the file's bytes at
 * /runfunc/func; a rank PUTs its result at /runfunc_result/<rank>, or says why there is none at /runfunc_error/<rank>.
 * All three begin with a MAC of the launch (lib/protocol/func_key.h): what others PUT there is refused, and goes
 * nowhere. Nothing that ranks send is kept here: it goes on, as it comes and without the MAC, to the results, which are
 * a file, or a pipe or socket whose reader's end ends the launch. Each record is a line of JSON, and then `length`
 * bytes:
 *   {"t":"result", "rank":R, "length":N}      the body of the first PUT of this rank
 *   {"t":"error", "rank":R, "length":N}       the same, of an error
 *   {"t":"exit", "rank":R, "host":H, "status":S, "how":TEXT, "length":0}   a rank failed; S as a shell has it,
 *                                             0 when all that it failed to do is to send a result
 *   {"t":"end", "status":S, "started":B, "ranks":N, "length":0}            the last one; S is hvdrun's
 */
#ifndef HVD_RUNFUNC_H
#define HVD_RUNFUNC_H

#include "lib/base/err.h"
#include "lib/base/log.h"
#include "lib/protocol/auth.h"
#include "lib/rendezvous/server.h"

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Variables of a rank: where the function is and who asks, see hvd_driver_opts.meeting_env; and how many bytes a result
 * may have, without its MAC. */
#define HVD_RUNFUNC_ENV     "HVD_RUN_FUNC"
#define HVD_RUNFUNC_MAX_ENV HVD_RUNFUNC_ENV "_MAX"

struct hvd_runfunc;

/* Bytes that a function or a result may have: what the rendezvous takes as one value, less the MAC. */
size_t hvd_runfunc_max(void);

/* Read the function and open the results; a number is a descriptor, which is closed in the end. `gone` is called once,
 * from the loop, when nobody reads the results any more. `base` and `log` must outlive it. */
struct hvd_runfunc *hvd_runfunc_open(struct event_base *base, const char *func, const char *results,
				     void (*gone)(void *arg), void *arg, const struct hvd_log *log,
				     struct hvd_err *err);
void hvd_runfunc_close(struct hvd_runfunc *rf); /* after the server; NULL is fine */

/* Offer the function at this server, signed, and take results there. `rf` must outlive the server; the key of the
 * launch's session is copied. */
int hvd_runfunc_serve(struct hvd_runfunc *rf, struct hvd_rv *rv, const struct hvd_key *session_key,
		      struct hvd_err *err);

/* A rank has failed; status as from waitpid(2), 0 for a result that is missing. */
void hvd_runfunc_failed(struct hvd_runfunc *rf, uint32_t rank, const char *host, int status);

/* Is this rank's result there? */
bool hvd_runfunc_has(const struct hvd_runfunc *rf, uint32_t rank);

/* All ranks have ended: write what is left, and the last record. Blocks while the reader reads. -1, after telling the
 * log why, when not all of it could be written. */
int hvd_runfunc_end(struct hvd_runfunc *rf, int status, bool started, uint32_t ranks);

#endif
