"""Build Dagster resources from settings; their classes are beside the assets that use them."""

from typing import Any

from assets.shared.interpreter import TrainingInterpreter
from assets.shared.profile import Profile
from assets.shared.storage import ReferenceIOManager, Storage
from pipelines.definitions.settings import Settings


def build_resources(settings: Settings) -> dict[str, Any]:
    """Storage, the references between assets, the profile, and the training interpreter."""
    storage = Storage(root=settings.storage.root)
    return {
        "storage": storage,
        "io_manager": ReferenceIOManager(storage=storage),
        "profile": Profile(
            suite=settings.benchmark_suite(),
            checks=settings.check_suite(),
            targets=settings.targets,
            training=settings.training,
            experiments=settings.experiments,
            promotion=settings.promotion,
        ),
        "interpreter": TrainingInterpreter(**settings.interpreter.model_dump()),
    }
