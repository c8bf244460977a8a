/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz.h - what the fuzz targets share.
 */
#ifndef HVD_TESTS_FUZZ_H
#define HVD_TESTS_FUZZ_H

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What each target defines; libFuzzer calls it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A finding, unless this holds. errno tells why only if a system call is what failed. */
#define must(condition) ((condition) ? (void)0 : fuzz_finding(__FILE__, __LINE__, #condition))

static inline _Noreturn void fuzz_finding(const char *file, int line, const char *condition)
{
	fprintf(stderr, "%s:%d: this does not hold: %s (errno: %s)\n", file, line, condition, strerror(errno));
	abort();
}

/* When the processor time is over that `ulimit -S -t` has set the target ends, as libFuzzer does on SIGUSR1: after the input
 * that it is at. Further signals come at each second that it uses, and one that goes on for five has found a loop. */
static inline void fuzz_time_is_over(int sig)
{
	static volatile sig_atomic_t seconds;

	(void)sig;
	if (seconds++ < 5)
		raise(SIGUSR1);
	else
		abort();
}

__attribute__((constructor)) static inline void fuzz_limit_time(void)
{
	signal(SIGXCPU, fuzz_time_is_over);
}

/* The input as a string, in memory of its own, as long as it is, so that whoever reads past its end is found. Caller
 * frees. */
static inline char *fuzz_text(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	must(text != NULL);
	if (size)
		memcpy(text, data, size);
	text[size] = '\0';
	return text;
}

#endif
