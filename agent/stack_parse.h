/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stack_parse.h - reads the output of tools that print a process's stacks.
 *
 * The result is an object:
 *   {"frames":[FRAME,…], "threads":[{"name":TEXT, "frames":[FRAME,…]},…], "gil":B}
 * with the stack of the main thread, the innermost frame first, and those of some of the other threads. A FRAME is
 * [FUNCTION, FILE, LINE]; gil: a thread held Python's global interpreter lock (left out if the tool does not know). FILE is "" and LINE 0 if the tool does not know them. Texts are valid UTF-8, printable, and
 * not longer than HVD_STACK_TEXT.
 *
 * The tool looks at the memory of another program, so any bytes are fine.
 */
#ifndef HVD_STACK_PARSE_H
#define HVD_STACK_PARSE_H

#include <jansson.h>
#include <stddef.h>
#include <sys/types.h>

#define HVD_STACK_TEXT          240 /* bytes of a function's or file's name */
#define HVD_STACK_FRAMES        64  /* of the main thread */
#define HVD_STACK_THREADS       4
#define HVD_STACK_THREAD_FRAMES 16

/* The output of `py-spy dump --json` (an array of threads), for the process `pid`. A new reference; NULL if the output
 * is malformed, or no thread has a frame. */
json_t *hvd_stack_parse_pyspy(const char *text, size_t len, pid_t pid);

/* The output of `eu-stack -p`, or of gdb's `thread apply all bt`. */
json_t *hvd_stack_parse_native(const char *text, size_t len, pid_t pid);

/* `text` in the form that the result's texts have. */
json_t *hvd_stack_text(const char *text, size_t len);

#endif
