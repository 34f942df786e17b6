"""A Ray cluster for each step that needs GPUs, instead of a permanent cluster.

The cluster is a resource of the user's: one of dagster-ray, such as ``dagster_ray.kuberay.KubeRayCluster``, or the
``ComputeResource`` of dagster-slurm. So nothing of the two packages is imported where the definitions load. The
training interpreter submits its jobs to it as to any Ray cluster.
"""

import os
import shlex
from typing import Any

import dagster as dg

from assets.shared.interpreter_process import TrainingInterpreter
from core.errors import InputError

NEEDED = ("lifecycle", "create", "on_create", "wait", "on_ready", "ready", "dashboard_url")  # members of a RayResource
OF_SLURM = "get_run_allocation_session"  # the member of a ComputeResource
RAY = "ray.scripts.scripts"  # the module of the command
AUTHENTICATION = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH")  # variables; the token itself is in no script


class ClusterInterpreter(TrainingInterpreter):
    """The training interpreter with its own cluster, which exists from a step's first job to the end of the step.

    Dagster calls the cluster's clean-up when the step ends, with or without success.
    """

    cluster: dg.ResourceDependency[dg.ConfigurableResource[Any]]

    def placement(self, context: dg.AssetExecutionContext) -> dict[str, Any]:
        """Return the cluster's address; the first call starts the cluster and waits until it is ready."""
        cluster: Any = self.cluster
        if not cluster.ready:
            cluster.create(context)
            cluster.on_create(context)
            cluster.wait(context)
            cluster.on_ready(context)
        return {"backend": "ray", "ray_address": cluster.dashboard_url, "slurm": {}}


class AllocationInterpreter(TrainingInterpreter):
    """The training interpreter with a Ray cluster in an allocation of Slurm, which the steps of a run share.

    Dagster gives the allocation back when the last step that uses it ends, with or without success.
    """

    compute: dg.ResourceDependency[dg.ConfigurableResource[Any]]

    def placement(self, context: dg.AssetExecutionContext) -> dict[str, Any]:
        """Return the cluster's address; the first call waits for the allocation and starts Ray on its nodes."""
        from dagster_slurm.helpers.ssh_pool import SSHConnectionPool

        if absent := [name for name in AUTHENTICATION if name not in os.environ]:
            raise InputError(
                f"ray: {absent[0]} is not set: Ray starts with a token on the nodes, so set RAY_AUTH_MODE=token, and "
                "RAY_AUTH_TOKEN_PATH to a file that only you can read, here and on the nodes"
            )
        compute: Any = self.compute
        session, launcher = compute.get_run_allocation_session(context), compute.default_launcher
        head = session.allocation
        ray, activation = f"{head.session_dir}/ray", f"{head.session_dir}/activate.sh"
        with SSHConnectionPool(compute.slurm.ssh) as pool:
            pool.write_file(f'#!/bin/sh\nexec {shlex.quote(str(self.executable()))} -m {RAY} "$@"\n', ray)
            pool.run(f"chmod +x {shlex.quote(ray)}")
            pool.write_file(self._activation(head.session_dir), activation)
            head.ensure_ray_cluster(
                ssh_pool=pool,
                launcher=launcher,
                activation_script=activation,
                startup_timeout=launcher.head_startup_timeout,
            )
        for workers in session.worker_allocations:
            session.wait_for_worker_allocation(
                workers, timeout=float("inf")
            )  # it may stay in the queue for a long time
        return {"backend": "ray", "ray_address": head.ray_dashboard_url, "slurm": {}}

    def _activation(self, folder: str) -> str:
        """Write the script that gives a shell on a node the command ``ray`` of ``folder``, and our packages."""
        variables = {"PYTHONPATH": self._environment()["PYTHONPATH"]}
        variables |= {name: os.environ[name] for name in AUTHENTICATION}
        exports = [f"export {name}={shlex.quote(value)}\n" for name, value in variables.items()]
        return "".join([*exports, f"export PATH={shlex.quote(folder)}:$PATH\n"])


def on_cluster(cluster: Any, interpreter: dict[str, Any]) -> TrainingInterpreter:
    """Build the interpreter of the settings ``interpreter`` that runs its jobs on ``cluster``, see `check_cluster`."""
    if hasattr(cluster, OF_SLURM):
        return AllocationInterpreter(**interpreter, compute=cluster)
    return ClusterInterpreter(**interpreter, cluster=cluster)


def check_cluster(cluster: Any) -> None:
    """Raise InputError unless ``cluster`` is a resource of dagster-ray or dagster-slurm that gives a step a cluster."""
    if hasattr(cluster, OF_SLURM):
        scope, launcher = cluster.allocation_scope, cluster.default_launcher
        if str(getattr(scope, "value", scope)) != "run" or not hasattr(launcher, "head_startup_timeout"):
            raise InputError(
                "ray: of dagster-slurm, give ComputeResource(mode='slurm', allocation_scope='run', "
                "default_launcher=RayLauncher(…), …): the jobs of a run go to a Ray cluster in one allocation"
            )
        return
    if missing := [name for name in NEEDED if not hasattr(type(cluster), name) and not hasattr(cluster, name)]:
        raise InputError(
            f"ray: got {type(cluster).__name__}, which has no {missing[0]}; expected a resource of dagster-ray, such "
            "as dagster_ray.kuberay.KubeRayCluster, or dagster_slurm.ComputeResource"
        )
    if cluster.lifecycle.create:
        raise InputError(
            "ray: give it lifecycle=Lifecycle(create=False), or each step starts a cluster, even if it reuses its "
            "result"
        )
