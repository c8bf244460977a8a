/* SPDX-License-Identifier: Apache-2.0 */
/* TF_CONFIG, which TensorFlow's strategies read (tensorflow/python/distribute/cluster_resolver/
 * tfconfig_cluster_resolver.py). Each rank serves at an address of its own, and knows those of all others. */
#include "emitters.h"

void hvd_emit_tensorflow(const struct hvd_emit *in, struct hvd_strv *env)
{
	if (!in->tf_workers)
		return;
	hvd_env_setf(env, "TF_CONFIG?",
		     "{\"cluster\": {\"worker\": [%s]}, \"task\": {\"type\": \"worker\", \"index\": %d}}",
		     in->tf_workers, in->slot->rank);
	/* TensorFlow has gRPC leave SO_REUSEPORT out, by which the ports are reserved (lib/net/reserve.h). */
	hvd_env_set(env, "TF_GRPC_REUSE_PORT?TF_CONFIG", "true");
}
