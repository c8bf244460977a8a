# SPDX-License-Identifier: Apache-2.0
"""In a clone: spack repo add packaging/spack, then: spack dev-build hvd@0.1.0

There is no archive to download, so the recipe builds the folder that it is called in.
"""

from spack_repo.builtin.build_systems.makefile import MakefilePackage

from spack.package import depends_on, license, variant, version


class Hvd(MakefilePackage):
    """Launcher of distributed training through Slurm, LSF, ssh or on one machine, and a plugin for srun --hvd."""

    manual_download = True

    license("Apache-2.0")

    version("0.1.0")

    variant("slurm", default=True, description="Build the plugin: srun --hvd")
    variant("gloo", default=False, description="Build hvd-selftest, which tests contexts and collectives")
    variant("python", default=True, description="Depend on what the Python module hvdrun needs")

    depends_on("c", type="build")
    depends_on("cxx", type="build", when="+gloo")
    depends_on("gmake", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("hwloc@2:")
    depends_on("jansson@2.12:")
    depends_on("libevent@2.1:")
    depends_on("libyaml")
    depends_on("munge")
    depends_on("ncurses")
    depends_on("nettle@3.4:3")
    depends_on("slurm@22-05:", when="+slurm")
    depends_on("zstd")
    depends_on("gloo", when="+gloo")
    depends_on("python@3.6:", type=("build", "run"), when="+python")
    depends_on("py-cloudpickle", type="run", when="+python")

    @property
    def settings(self):
        spec = self.spec
        args = [
            f"PREFIX={self.prefix}",
            f"PLUGIN={'yes' if spec.satisfies('+slurm') else 'no'}",
            f"GLOO={'yes' if spec.satisfies('+gloo') else 'no'}",
        ]
        if spec.satisfies("+slurm"):
            args.append(f"SLURM_CFLAGS=-I{spec['slurm'].prefix.include}")
        return args

    @property
    def build_targets(self):
        return self.settings + ["all"]

    @property
    def install_targets(self):
        return self.settings + ["install"]

    def setup_run_environment(self, env):
        if self.spec.satisfies("+python"):
            env.prepend_path("PYTHONPATH", self.prefix.lib.hvd.python)

    def check(self):
        """The tests need a cluster, and are run in a clone."""
