# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Loaded behind launch.bash: a running job that is asked from outside, with hvdrun --stacks or --status.

setup_file() { suite_up --nodes 3; }
teardown() {
    as_root hvdlogin pkill -u bob || true
    on_login scancel -u alice
    wait_for 20 no_jobs
    cluster_mend
    assert_no_leftovers
}
no_jobs() { [[ -z $(on_login squeue -h -u alice) ]]; }

# job_of RANKS: the job that begin has started, when all of its ranks run.
job_of() {
    says_times 15 "$1" here
    on_login squeue -h -u alice -t R -o %A | head -n 1
}
