"""Build the wheel: one folder, luffy_on_dagster, with the packages of the clone; a .pth file puts it on the path."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

PACKAGES = ("assets", "core", "evaluation", "grading", "pipelines", "research", "targets", "training")
FILES = ("pyproject.toml", "dagster.yaml", "docs/*.md", "requirements/train-*.lock", "requirements/torch-cpu.txt")


class BuildFolder(build_py):
    """Copies the project instead of single packages; an editable installation links the clone as usual."""

    def run(self) -> None:
        if self.editable_mode:
            return super().run()
        folder = Path(self.build_lib) / "luffy_on_dagster"
        shutil.rmtree(folder, ignore_errors=True)  # of an earlier build
        for package in PACKAGES:
            ignored = shutil.ignore_patterns("__pycache__", "runs")
            shutil.copytree(package, folder / package, ignore=ignored, dirs_exist_ok=True)
        for file in (file for pattern in FILES for file in Path().glob(pattern)):
            (folder / file).parent.mkdir(exist_ok=True)
            shutil.copy(file, folder / file)
        folder.with_suffix(".pth").write_text(f"{folder.name}\n")


setup(cmdclass={"build_py": BuildFolder})
