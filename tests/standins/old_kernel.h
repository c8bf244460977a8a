/* SPDX-License-Identifier: Apache-2.0 */
/*
 * old_kernel.h - system calls that are newer than Linux 4.18, the kernel of RHEL 8, answer ENOSYS, as they do there.
 */
#ifndef HVD_TESTS_OLD_KERNEL_H
#define HVD_TESTS_OLD_KERNEL_H

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

/* The last one of Linux 4.18 is rseq(2). The kernel has added all others behind it. */
#if defined(__x86_64__)
#define OLD_KERNEL_ARCH AUDIT_ARCH_X86_64
#define OLD_KERNEL_LAST 334
#elif defined(__aarch64__)
#define OLD_KERNEL_ARCH AUDIT_ARCH_AARCH64
#define OLD_KERNEL_LAST 293
#else
#error "which system call is the last one of Linux 4.18 here?"
#endif

/* From here on, in this process and in all that it starts; there is no way back. Nothing else is changed, but without
 * CAP_SYS_ADMIN programs with set-user-ID gain no rights. Returns -1 with errno set after a failure. */
static inline int old_kernel_begin(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OLD_KERNEL_ARCH, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, OLD_KERNEL_LAST, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};

	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0)
		return 0;
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) : -1;
}

#endif
