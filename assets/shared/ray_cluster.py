"""A cluster of dagster-ray for each step that needs GPUs, in the place of one that always runs.

The cluster is a resource of the user's, such as ``dagster_ray.kuberay.KubeRayCluster``, so nothing of dagster-ray is
imported here. The training interpreter submits its jobs to it as to any Ray cluster.
"""

from typing import Any

import dagster as dg

from assets.shared.interpreter import TrainingInterpreter
from core.errors import InputError

NEEDED = ("lifecycle", "create", "on_create", "wait", "on_ready", "ready", "dashboard_url")  # of a RayResource


class ClusterInterpreter(TrainingInterpreter):
    """The training interpreter with a cluster of its own, which exists from the first job of a step to its end.

    Dagster calls the cluster's clean-up when the step ends, however it ends.
    """

    cluster: dg.ResourceDependency[dg.ConfigurableResource[Any]]

    def placement(self, context: dg.AssetExecutionContext) -> dict[str, Any]:
        """The cluster's address; the first call starts the cluster and waits until it is ready."""
        cluster: Any = self.cluster
        if not cluster.ready:
            cluster.create(context)
            cluster.on_create(context)
            cluster.wait(context)
            cluster.on_ready(context)
        return {"backend": "ray", "ray_address": cluster.dashboard_url, "slurm": {}}


def check_cluster(cluster: Any) -> None:
    """Raise InputError unless ``cluster`` is a resource of dagster-ray that starts when it is asked to."""
    if missing := [name for name in NEEDED if not hasattr(type(cluster), name) and not hasattr(cluster, name)]:
        raise InputError(
            f"ray: got {type(cluster).__name__}, which has no {missing[0]}; expected a resource of dagster-ray, such "
            "as dagster_ray.kuberay.KubeRayCluster"
        )
    if cluster.lifecycle.create:
        raise InputError(
            "ray: give it lifecycle=Lifecycle(create=False), or each step starts a cluster, also one that reuses its "
            "result"
        )
