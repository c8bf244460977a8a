/* SPDX-License-Identifier: Apache-2.0 */
#include "sock_diag.h"

#include <linux/inet_diag.h>
#include <linux/rtnetlink.h>
#include <string.h>

size_t hvd_sock_diag_tcp_info(const struct nlmsghdr *h, struct tcp_info *info)
{
	const struct rtattr *a = (const struct rtattr *)((const char *)NLMSG_DATA(h) + sizeof(struct inet_diag_msg));
	unsigned left = h->nlmsg_len - NLMSG_LENGTH(sizeof(struct inet_diag_msg));

	memset(info, 0, sizeof(*info));
	for (; RTA_OK(a, left); a = RTA_NEXT(a, left))
		if (a->rta_type == INET_DIAG_INFO) {
			size_t n = RTA_PAYLOAD(a) < sizeof(*info) ? RTA_PAYLOAD(a) : sizeof(*info);

			memcpy(info, RTA_DATA(a), n);
			return n;
		}
	return 0;
}
