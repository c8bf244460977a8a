/* SPDX-License-Identifier: Apache-2.0 */
/*
 * syscalls.h - the numbers of system calls that are newer than the headers of glibc 2.28. They are the same on all
 * architectures. A kernel that lacks one answers ENOSYS.
 */
#ifndef HVD_SYSCALLS_H
#define HVD_SYSCALLS_H

#include <sys/syscall.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434 /* Linux 5.3 */
#endif
#ifndef SYS_close_range
#define SYS_close_range 436 /* Linux 5.9 */
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438 /* Linux 5.6 */
#endif

#endif
