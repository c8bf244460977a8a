# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# csm_common.bash - what the stand-ins for the tools of CSM share. See csm_allocation_query.

tool=$(basename "$0")
# Exit statuses of the real ones: csmi/include/csmi_type_common.h of CAST.
# shellcheck disable=SC2034 # used where this is sourced
CSMI_HELP=2 CSMI_NO_RESULTS=4 CSMERR_MISSING_PARAM=8 CSMERR_INVALID_PARAM=9
CSMERR_PERM=16 CSMERR_INIT=18

: "${HVD_STANDIN_CSM:?is not set: this is a stand-in for tests}"

csm_begin() {
	printf '%q ' "$tool" "$@" | sed 's/ $/\n/' >>"$HVD_STANDIN_CSM/calls"
	env -0 >"$HVD_STANDIN_CSM/env.$tool"
}

csm_usage() { echo "stand-in for $tool. Usage: $tool $1"; }

csm_argument() { (($# > 1)) || { echo "$tool: option '$1' requires an argument" >&2; exit "$CSMERR_INVALID_PARAM"; }; }

csm_bad_value() {
	echo "Invalid value for $1: $2" >&2
	exit "$CSMERR_INVALID_PARAM"
}

csm_unknown() {
	echo "[csmapi][error] unknown arg: '$1'" >&2
	exit "$CSMERR_INVALID_PARAM"
}

csm_not_here() {
	echo "$tool: the stand-in does not know how to answer $1" >&2
	exit 125
}

csm_missing() {
	echo "[csmapi][error]   Missing operand(s)." >&2
	exit "$CSMERR_MISSING_PARAM"
}

csm_empty() {
	printf -- '---\nTotal_Records: 0\n# No matching records found.\n...\n'
	exit "$CSMI_NO_RESULTS"
}

csm_print() {
	if [[ " ${HVD_STANDIN_CSM_FAIL-} " == *" $tool=cut "* ]]; then
		awk '{ print } /^ - |discovered_cores/ { exit }'
	else
		cat
	fi
}

csm_maybe_fail() {
	local how word
	for word in ${HVD_STANDIN_CSM_FAIL-}; do
		[[ $word == "$tool="* ]] || continue
		how=${word#*=}
		case $how in
		empty) csm_empty ;;
		daemon)
			echo "[csmapi][error]   csm_init_lib rc= $CSMERR_INIT, Initialization failed. Success is required" \
				"to be able to communicate between library and daemon. Are the daemons running?" >&2
			exit "$CSMERR_INIT"
			;;
		error)
			echo "$0 FAILED: errcode: $CSMERR_PERM errmsg: PERMISSION DENIED"
			exit "$CSMERR_PERM"
			;;
		rubbish) printf '\x7fELF\x02\x01: [{ \t& compute_nodes\n - - ] x' && exit 0 ;;
		silent) exit 0 ;;
		cut) ;;
		crash) kill -SEGV $$ ;;
		hang) exec sleep 1000 ;;
		flood) exec yes "compute_nodes: x" ;;
		*) echo "$tool: the stand-in cannot fail by '$how'" >&2 && exit 125 ;;
		esac
	done
}
