#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# nios, eauth - what lsrun runs in LSF_SERVERDIR, started with SIGUSR1 ignored.
#
# hvdrun sets LSF_SERVERDIR to this folder for the lsruns that it starts. LSF sends SIGUSR1 to every process of a job.
# lsrun resets all signals before it starts nios, and nios does not handle SIGUSR1: without this script the signal would
# end nios, and with it the host's ranks.
trap '' USR1
exec "${HVD_LSF_SERVERDIR:?}/${0##*/}" "$@"
