/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cleanup.h - variables that release what they hold when their block is left, on every way out of it.
 *
 *   hvd_cleanup_free char *text = hvd_xstrdup("…");          free(text)
 *   hvd_cleanup_close int fd = open(…);                       close(fd), unless it is negative
 *   hvd_cleanup_fclose FILE *f = fopen(…);                    fclose(f), unless it is NULL
 *   HVD_CLEANUP(hvd_strv_free) struct hvd_strv v = {0};       hvd_strv_free(&v); any function of the variable's address
 *
 * Initialise such a variable where it is declared. Otherwise a return before the first assignment frees a random value.
 * The release keeps errno. To hand the value to a caller, return hvd_take_ptr(&text) or hvd_take_fd(&fd), which leave
 * NULL and -1 behind. For messages jansson has json_auto_t.
 */
#ifndef HVD_CLEANUP_H
#define HVD_CLEANUP_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HVD_CLEANUP(function) __attribute__((cleanup(function)))
#define hvd_cleanup_free      HVD_CLEANUP(hvd_cleanup_free_)
#define hvd_cleanup_close     HVD_CLEANUP(hvd_cleanup_close_)
#define hvd_cleanup_fclose    HVD_CLEANUP(hvd_cleanup_fclose_)

/* Returns the pointer at `variable` (of any type T **), and leaves NULL there. */
#define hvd_take_ptr(variable) ((__typeof__(*(variable)))hvd_take_ptr_(variable))

static inline void *hvd_take_ptr_(void *variable)
{
	void *value, *none = NULL;

	memcpy(&value, variable, sizeof(value));
	memcpy(variable, &none, sizeof(none));
	return value;
}

static inline int hvd_take_fd(int *variable)
{
	int fd = *variable;

	*variable = -1;
	return fd;
}

static inline void hvd_cleanup_free_(void *variable)
{
	free(hvd_take_ptr_(variable)); /* glibc's free() keeps errno */
}

static inline void hvd_cleanup_close_(int *fd)
{
	int kept = errno;

	if (*fd >= 0)
		close(*fd);
	errno = kept;
}

static inline void hvd_cleanup_fclose_(FILE **f)
{
	int kept = errno;

	if (*f)
		fclose(*f);
	errno = kept;
}

#endif
