"""Programs run by a SandboxFusion server (bytedance/SandboxFusion), where this machine allows no namespaces."""

import http.client
import json
import time
import urllib.error
import urllib.request
from typing import Any

from core.errors import InputError, first_line
from grading.isolation.sandbox import Limits, Run, SandboxFailed

RETRIES = 3
PAUSE_S = 1.0  # before the first retry, then twice as long each time
GRACE_S = 30.0  # beyond the limit of the program, for the queue of the server


class SandboxFusion:
    """Runs programs by ``POST URL/run_code``. Raises InputError if nothing answers there."""

    def __init__(self, url: str, limits: Limits) -> None:
        self._url, self._limits = url.rstrip("/"), limits
        try:
            ended = self.run("print('runs')", "")
        except SandboxFailed as error:
            raise InputError(f"{error}; expected a SandboxFusion server") from None
        if ended.stdout.strip() != "runs":
            raise InputError(f"{url} did not run a first program: {ended.problem or ended.stdout[:80]}")

    def run(self, program: str, stdin: str) -> Run:
        request = {
            "code": program,
            "language": "python",
            "stdin": stdin,
            "run_timeout": self._limits.seconds,
            "memory_limit_MB": self._limits.memory >> 20,
        }
        answer = self._post(json.dumps(request).encode())
        result = answer.get("run_result") or {}
        if answer.get("status") == "SandboxError" or not isinstance(result, dict) or "status" not in result:
            raise SandboxFailed(f"{self._url}: {str(answer.get('message') or answer)[:200]}")
        if result["status"] == "TimeLimitExceeded":
            return Run("", f"no end within {self._limits.seconds:g} s")
        problem = ""
        if result.get("return_code"):
            stderr = str(result.get("stderr") or "").strip().splitlines()
            problem = (stderr or [f"exit status {result['return_code']}"])[-1][:200]
        return Run(str(result.get("stdout") or ""), problem)

    def _post(self, body: bytes) -> dict[str, Any]:
        """Return the object that the server answers, asked again when it is busy or gone for a moment."""
        request = urllib.request.Request(
            f"{self._url}/run_code", data=body, headers={"Content-Type": "application/json"}, method="POST"
        )
        problem = ""
        for attempt in range(RETRIES + 1):
            if attempt:
                time.sleep(PAUSE_S * 2 ** (attempt - 1))
            try:
                with urllib.request.urlopen(request, timeout=self._limits.seconds + GRACE_S) as response:
                    answer = json.load(response)
                if isinstance(answer, dict):
                    return answer
                problem = f"answered {answer!r:.80}"
            except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError) as error:
                problem = first_line(error)
                if isinstance(error, urllib.error.HTTPError) and error.code < 500 and error.code != 429:
                    break
        raise SandboxFailed(f"{self._url}: {problem}")
