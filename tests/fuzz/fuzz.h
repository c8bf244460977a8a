/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz.h - what the fuzz targets share.
 */
#ifndef HVD_TESTS_FUZZ_H
#define HVD_TESTS_FUZZ_H

#include <errno.h>
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
