/* SPDX-License-Identifier: Apache-2.0 */
/* The test of test_store_owner.c that keeps all processors busy for seconds. */
#define FLOODS 1
#include "tests/unit/lib/rendezvous/test_store_owner.c"
