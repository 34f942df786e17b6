"""Gives every training sockets of its own, by which its weights reach vLLM.

verl names the socket after the Ray job, in a folder that all trainings of a machine share. The first job of every
cluster has the same id, so two trainings on a machine would share the socket; the port of the cluster differs.
verl imports this module in every process of a job, because ``VERL_USE_EXTERNAL_MODULES`` of the hardware profile names
it.
"""

from ray.runtime_context import RuntimeContext

_job_id = RuntimeContext.get_job_id
RuntimeContext.get_job_id = lambda self: f"{_job_id(self)}-{self.gcs_address.rpartition(':')[2]}"
