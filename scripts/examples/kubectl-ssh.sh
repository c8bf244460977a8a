#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Ranks in the pods of a Kubernetes job, by kubectl exec in place of ssh:
#
#   HVD_SSH=./kubectl-ssh.sh hvdrun --hosts POD:SLOTS,POD:SLOTS python train.py
#
# hvdrun calls it as it calls ssh: OPTION... -- HOST COMMAND. Of these kubectl takes none of ssh's options, and the name of
# a pod without a domain. -i is needed: what hvdrun tells its node agents goes through their stdin. That is why Kubeflow's
# /etc/mpi/kubexec.sh, which has no -i, does not do here; mpirun needs no more than that (hvdrun --launcher=mpirun).
while [ "$1" != -- ]; do shift; done
pod=${2%%.*}
shift 2
exec "${KUBECTL:-kubectl}" exec -i "$pod" -- /bin/sh -c "$*"
