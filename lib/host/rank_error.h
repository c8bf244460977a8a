/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rank_error.h - why a rank failed, read from its standard error and from PyTorch's error file.
 *
 * Both come in pieces of any size and with any bytes. Memory is bounded. A piece costs a search for line ends and a
 * look at both ends of each line. The parser finds the following; the last one counts:
 *   - Python's tracebacks, with exceptions that led to one another, also where torch puts "[rank3]: " in front of each
 *     line; not those that Python itself ignores, as in __del__() ("Exception ignored in");
 *   - the ends of a C++, Rust or Python program by an error of its own ("terminate called after throwing …", "thread …
 *     panicked at …", "Fatal Python error: …"), and a shell's message about a command that crashed.
 *
 * torch's @record writes the error file when the decorated function raises. It is JSON, in the file that
 * HVD_RANK_ERROR_FILE names (torch/distributed/elastic/multiprocessing/errors/error_handler.py):
 *   {"message": {"message": "TYPE: TEXT", "extraInfo": {"py_callstack": TRACEBACK, "timestamp": SECONDS}}}
 *   {"message": TEXT}, in the first releases and from programs that write it themselves.
 * The error file counts for more than standard error. If several processes of a rank write one, the first counts.
 */
#ifndef HVD_RANK_ERROR_H
#define HVD_RANK_ERROR_H

#include "rank_end.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HVD_RANK_ERROR_FILE "TORCHELASTIC_ERROR_FILE"
/* Ranks that get PyTorch's variables, of which this is one, also get HVD_RANK_ERROR_FILE. */
#define HVD_RANK_ERROR_FILE_WITH "ROLE_NAME"
/* The file is a pipe of the process that reads it, so that no file is left behind, however that process ends. */
#define HVD_RANK_ERROR_FILE_FORMAT "/proc/%d/fd/%d"
/* Has the user set it? NULL, the empty value and the pipe of a launch around this one count as not set. */
bool hvd_rank_error_file_set(const char *value);

struct hvd_rank_error;

/* `lines`: how many of the last lines of standard error to keep. */
struct hvd_rank_error *hvd_rank_error_create(unsigned lines);
void hvd_rank_error_destroy(struct hvd_rank_error *error); /* NULL is fine */

/* What the rank wrote to its standard error, and into the error file; `now` by hvd_now(). */
void hvd_rank_error_stderr(struct hvd_rank_error *error, const char *bytes, size_t n, hvd_time now);
void hvd_rank_error_file(struct hvd_rank_error *error, const char *bytes, size_t n, hvd_time now);

/* The last lines of standard error so far, as they are. The caller frees them. */
char *hvd_rank_error_lines(const struct hvd_rank_error *error, unsigned lines);

/* The rank has ended, and all of its output was fed. Sets failed_at, error, traceback and tail of `end`, which has
 * status and ended_at, and owns the strings; they are escaped as printable.h says. Sets nothing if the status is 0. A
 * traceback does not count if the rank lived on for long after it. */
void hvd_rank_error_fill(struct hvd_rank_error *error, struct hvd_rank_end *end);

#endif
