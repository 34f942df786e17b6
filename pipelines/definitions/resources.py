"""Resources from settings. Their classes are beside the assets that use them."""

from typing import Any

from assets.shared.interpreter import TrainingInterpreter
from assets.shared.storage import ReferenceIOManager, Storage
from pipelines.definitions.settings import Settings


def build_resources(settings: Settings) -> dict[str, Any]:
    """Storage, the references between assets, and the training interpreter."""
    storage = Storage(root=settings.storage.root)
    return {
        "storage": storage,
        "io_manager": ReferenceIOManager(storage=storage),
        "interpreter": TrainingInterpreter(**settings.interpreter.model_dump()),
    }
