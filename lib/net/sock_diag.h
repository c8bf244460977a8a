/* SPDX-License-Identifier: Apache-2.0 */
/* sock_diag.h - reads the kernel's information about TCP sockets (sock_diag(7)). */
#ifndef HVD_SOCK_DIAG_H
#define HVD_SOCK_DIAG_H

#include <linux/netlink.h>
#include <linux/tcp.h>
#include <stddef.h>

/* The TCP_INFO behind a struct inet_diag_msg, which `h` must have. Returns how many bytes of *info the kernel has
 * filled (0 if it sent none); the other bytes are zero. */
size_t hvd_sock_diag_tcp_info(const struct nlmsghdr *h, struct tcp_info *info);

#endif
