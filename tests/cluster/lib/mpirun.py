#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the mpirun of an MPI that cannot be installed here.

It takes the command line as the manual has it and nothing else (an option that
is not below, or without its value, ends it with status 99), and starts the
ranks on this machine, with the variables that the real one sets. What the real
one does beyond that, nobody has seen here.

Called as intel.mpirun: Intel MPI Library Developer Reference, "mpiexec.hydra".
Called as spectrum.mpirun: IBM Spectrum MPI, "mpirun"; Open MPI's mpirun(1).
"""
import os
import subprocess
import sys

INTEL = {"-l": 0, "-np": 1, "-ppn": 1, "-hosts": 1, "-bootstrap": 1, "-bootstrap-exec-args": 1, "-iface": 1,
         "-genv": 2, "-verbose": 0}
SPECTRUM = {"--allow-run-as-root": 0, "--tag-output": 0, "--timestamp-output": 0, "-np": 1, "-H": 1, "-bind-to": 1,
            "-map-by": 1, "-rank-by": 1, "-tcp": 0, "-mca": 2, "-x": 1, "--output-filename": 1}


def wrong(text):
    sys.stderr.write("stand-in: %s\n" % text)
    sys.exit(99)


def options(words, known):
    given, i = {}, 0
    while i < len(words) and words[i].startswith("-"):
        name = words[i]
        if name not in known or i + known[name] >= len(words):
            wrong("%s is not in the manual, or lacks its value" % name)
        if name in given and name not in ("-x", "-mca", "-genv"):
            wrong("%s is there twice" % name)
        given.setdefault(name, []).append(words[i + 1:i + 1 + known[name]])
        i += 1 + known[name]
    if i == len(words):
        wrong("there is no program")
    return given, words[i:]


def main():
    intel = os.path.basename(sys.argv[0]).startswith("intel")
    if sys.argv[1:] == ["--version"]:
        print("Intel(R) MPI Library for Linux* OS, Version 2021.1 Build 20201112" if intel
              else "mpirun (IBM Spectrum MPI) 10.3.1.02rtm0")
        return 0
    given, command = options(sys.argv[1:], INTEL if intel else SPECTRUM)
    size = int(given["-np"][0][0])
    env = dict(os.environ)
    if intel:
        hosts, each = given["-hosts"][0][0].split(","), int(given["-ppn"][0][0])
        if len(hosts) * each < size:
            wrong("too few hosts")
        env.update(given.get("-genv", []))
    else:
        slots = [h.rsplit(":", 1) for h in given["-H"][0][0].split(",")]
        if sum(int(n) for _, n in slots) < size:
            wrong("too few slots")
        exported = [x[0] for x in given["-x"]]
        # Only what is exported arrives, as on another host.
        env = {k: v for k, v in env.items() if k in exported or k.startswith("OMPI_")}
        env.update(x.split("=", 1) for x in exported if "=" in x)
        env.update(("OMPI_MCA_" + k, v) for k, v in given.get("-mca", []))
    ranks = []
    for rank in range(size):
        names = (("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS") if intel else
                 ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                  "OMPI_COMM_WORLD_LOCAL_SIZE"))
        told = dict(zip(names, map(str, (rank, size, rank, size))))
        ranks.append(subprocess.Popen(command, env={**env, **told}, process_group=0))
    status = 0
    for _ in ranks:
        pid, how = os.wait()
        if how and not status:
            status = os.waitstatus_to_exitcode(how)
            for rank in ranks:
                if rank.pid != pid:
                    os.killpg(rank.pid, 15)
    return status if status >= 0 else 128 - status


sys.exit(main())
