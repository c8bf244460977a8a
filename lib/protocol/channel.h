/* SPDX-License-Identifier: Apache-2.0 */
/*
 * channel.h - the channels of bytes of a connection (conn.h) between a launch and one of its hosts, or between two
 * relays.
 */
#ifndef HVD_CHANNEL_H
#define HVD_CHANNEL_H

/* At most UINT16_MAX. */
enum hvd_channel {
	HVD_CHANNEL_PREAMBLE,   /* to a self-registering agent: its command line (lib/host/join.h) */
	HVD_CHANNEL_STDIN,      /* to an agent: input of rank 0; no bytes: its end */
	HVD_CHANNEL_STDOUT,     /* from an agent: output of its ranks */
	HVD_CHANNEL_STDERR,     /* the same */
	HVD_CHANNEL_STORE = 16, /* both ways: the store of world 0 (lib/rendezvous/relay_wire.h); of world k: + k */
};

#endif
