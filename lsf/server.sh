#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# nios, eauth - what lsrun runs in LSF_SERVERDIR, started with SIGUSR1 ignored.
#
# hvdrun has its lsruns use this folder. lsrun resets all signals before it starts nios, nios leaves SIGUSR1 as it is,
# and LSF sends SIGUSR1 to every process of the job: it would end nios, and with it the host's ranks.
trap '' USR1
exec "${HVD_LSF_SERVERDIR:?}/${0##*/}" "$@"
