/* SPDX-License-Identifier: Apache-2.0 */
/* The tests of test_rendezvous_server.c that say the same where clients connect to a relay. They wait as long, so they are a
 * program of their own. */
#define RELAYED true
#include "tests/unit/lib/rendezvous/test_rendezvous_server.c"
