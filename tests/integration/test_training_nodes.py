"""A training across the two nodes of a real Ray cluster, which are two groups of processes on this machine."""

from pathlib import Path

import pytest
from ray_nodes import ray_cluster
from training_inputs import write_targets
from training_runs import Training, command_line, family

from core.model.lineage_file import read_manifest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def test_a_training_of_two_nodes_has_a_rank_and_an_engine_on_each(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    targets = write_targets(tmp_path / "train.parquet", 16)
    with ray_cluster(tmp_path_factory.mktemp("nodes", numbered=False), nodes=2) as cluster:
        place = ["--backend", "ray", "--ray-address", cluster.dashboard]
        run = Training(tmp_path / "run", targets, "luffy", *place, trainer__nnodes="2")
        run.wait_for_step(1)
        for node in cluster.nodes:
            there = [command_line(process) for process in family(node)]
            for role in ("ray::WorkerDict", "ray::vLLMHttpServer"):
                assert any(role in line for line in there), (node, role, there)
        assert run.end() == 0, run.said
        assert [record["step"] for record in run.metrics()] == [1, 2]
        assert (
            len(list((tmp_path / "run" / "checkpoints").glob("global_step_2/actor/model_world_size_2_rank_*.pt"))) == 2
        )
        assert read_manifest(tmp_path / "run" / "policy").steps == 2

        too_many = Training(tmp_path / "three", targets, "luffy", *place, trainer__nnodes="3")
        assert too_many.end() == 2
        assert "the run does not fit: nodes: needs 3 of 2: try trainer.nnodes" in too_many.said
