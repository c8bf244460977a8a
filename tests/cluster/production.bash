# shellcheck shell=bash
# What the tests of production settings share, besides helpers and launch.

# A job's private /tmp must not hide what the hosts share: clusters of these tests live below /var/tmp, and so do the
# site's scripts, in $SITE. Where the checkout is below /tmp that cannot be: $NO_PLACE is the reason, for setup().
production_place() {
    if [[ $(readlink -f "$BATS_TEST_DIRNAME/../..") == /tmp/* ]]; then
        export NO_PLACE="this checkout is below /tmp, which jobs of these clusters have a private one of"
        return 1
    fi
    SITE=$(mktemp -d /var/tmp/hvd-site.XXXXXX)
    chmod 755 "$SITE"
    export SITE HVD_CLUSTER_DIR=/var/tmp/hvd-cluster-${USER:-$(id -un)}
}

# site_script NAME <TEXT: writes a script for Prolog, Epilog or TaskProlog.
site_script() {
    cat >"$SITE/$1"
    chmod 755 "$SITE/$1"
}

# cgroups v1|v2: sets CGROUPS to the options for a cluster with them, or WHY_NOT to the machine's reason.
cgroups() {
    local file sudo=()
    file=$(readlink -f "$BATS_TEST_DIRNAME/../../scripts/cluster/cgroup.sh")
    if ((EUID != 0)); then sudo=(sudo -n); fi
    CGROUPS=(--cgroup "$1") WHY_NOT=
    # shellcheck disable=SC2016,SC2034 # for the shell that is called; for the caller
    WHY_NOT=$("${sudo[@]}" bash -c '. "$1"; cgroup_can "$2"' - "$file" "$1") || CGROUPS=()
    export WHY_NOT
}

# The MpiDefault of sites with Open MPI, where Slurm has it.
mpi_default() {
    if compgen -G '/usr/lib*/*/slurm*/mpi_pmix.so' >/dev/null; then echo pmix; else echo none; fi
}

# How many CPUs a node can have: tasks are bound to real ones here.
real_cpus() {
    local cpus
    cpus=$(nproc)
    echo $((cpus < 4 ? cpus : 4))
}

# Six ranks of a batch job on three hosts meet, by srun and by hvdrun, and then those of an elastic job.
batch_job_meets() {
    script job.sh <<'END'
#!/bin/bash
srun --hvd hvd-selftest --quick || exit
hvdrun hvd-selftest --quick || exit
exec hvdrun --min-np 2 bash -c 'echo "elastic $HOROVOD_ELASTIC $HOROVOD_RANK"'
END
    submit -N3 --ntasks-per-node=2 --no-kill job.sh
    exits 0
    has_not warning
    # shellcheck disable=SC2154 # set by submit
    [ "$(grep -c "6 ranks on 3 hosts: OK" <<<"$output")" -eq 2 ]
    [ "$(grep -c "^elastic 1" <<<"$output")" -eq 6 ]
}
