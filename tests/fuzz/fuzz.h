/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz.h - what the fuzz targets share.
 */
#ifndef HVD_TESTS_FUZZ_H
#define HVD_TESTS_FUZZ_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* What each target defines; libFuzzer calls it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A finding, unless this holds. */
static inline void must(bool held)
{
	if (!held)
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
