"""A policy on the hub."""

import os
import subprocess
import sys
from pathlib import Path

from hub import serve_hub
from manifests import manifest

from training.export.model_card import model_card

ROOT = Path(__file__).resolve().parents[3]


def test_a_policy_is_uploaded_with_its_card(tmp_path: Path) -> None:
    """To a stand-in of the hub's HTTP interface (tests/hub.py), because the real one cannot be reached."""
    policy = tmp_path / "policy"
    policy.mkdir()
    (policy / "README.md").write_text(model_card(manifest()))
    (policy / "config.json").write_text("{}")
    code = "import sys; from pathlib import Path; from training.export.upload import push_to_hub\n"
    code += "push_to_hub(Path(sys.argv[1]), 'me/policy')"
    with serve_hub() as hub:

        def push(**changes: str) -> str:
            environment = {
                **os.environ,
                **hub.environment(),
                "HF_HOME": str(tmp_path),
                "PYTHONPATH": str(ROOT),
                **changes,
            }
            command = [sys.executable, "-c", code, str(policy)]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
            return done.stderr.strip().splitlines()[-1] if done.returncode else ""

        assert push() == ""
        assert hub.newest("models/me/policy") == {file.name: file.read_bytes() for file in policy.iterdir()}
        assert hub.private == {"models/me/policy": True}
        for changes in ({"HF_TOKEN": "wrong"}, {"HF_ENDPOINT": "http://127.0.0.1:9"}):
            refused = push(**changes)
            assert "InputError: run.push_to_hub=me/policy: the hub refused (" in refused
            assert refused.endswith(f"; the policy is complete in {policy}")
