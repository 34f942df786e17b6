"""Compare an environment with its lock. Standard library only, so that it works in broken environments."""

from importlib import metadata
from pathlib import Path

SHOWN = 5


def locked_versions(lock: Path) -> dict[str, str]:
    """Return the versions of the packages in a lock file by normalized name."""
    pins = [line.partition("==") for line in lock.read_text(encoding="utf-8").splitlines() if line[:1].isalnum()]
    return {normalized(name): rest.partition(";")[0].split()[0] for name, _, rest in pins}


def differences(lock: Path, site: list[str] | None = None) -> list[str]:
    """List where the environment differs from the lock, one phrase per package; [] if it agrees.

    Args:
        lock: the file.
        site: folders of the environment (default: of this interpreter).
    """
    installed = installed_versions(site)
    result: list[str] = []
    for name, version in locked_versions(lock).items():
        here = installed.get(name)
        if here is None:
            result.append(f"{name} is missing")
        elif here != version and not (name == "torch" and here.partition("+")[0] == version.partition("+")[0]):
            result.append(f"{name} is {here}, not {version}")
    return result


def installed_versions(site: list[str] | None = None) -> dict[str, str]:
    """Return the versions of the packages in ``site``, by default of this interpreter, by normalized name."""
    found = metadata.distributions(path=site) if site is not None else metadata.distributions()
    return {normalized(one.metadata["Name"]): one.version for one in found if one.metadata["Name"]}


def summary(phrases: list[str]) -> str:
    """Join the first few of ``phrases``, and say how many there are."""
    more = f" and {len(phrases) - SHOWN} more" if len(phrases) > SHOWN else ""
    return ", ".join(phrases[:SHOWN]) + more


def normalized(name: str) -> str:
    """Return the name by which packages are compared (PEP 503)."""
    return "-".join(filter(None, name.lower().replace("_", "-").replace(".", "-").split("-")))
