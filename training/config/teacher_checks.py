"""Find the teacher of a run and check it before anything starts."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import InputError, first_line
from core.files import read_object
from core.model.endpoints import open_client
from core.model.model_folder import HUB_ID, check_model, download_model
from training.config.teacher_settings import (
    BASE,
    MODEL,
    SELF,
    endpoint_of,
    has_server,
    longest_scored,
    teacher_of,
    top_tokens,
)

if TYPE_CHECKING:
    from omegaconf import DictConfig

PROBED = 256  # tokens that an endpoint is asked about
SECONDS = 60


def teacher_folder(name: str) -> Path:
    """Return the folder of the model ``name``: a folder, or a hub id, which is downloaded.

    Raises:
        InputError: it is neither, or the hub does not give it.
    """
    path = Path(name).expanduser()
    if path.is_dir():
        return path.absolute()
    if hub := HUB_ID(name):
        return download_model(hub["repository"], hub["revision"])[0]
    raise InputError(
        f"{MODEL}: got {name!r}, expected a model folder, a hub id (owner/name[@revision]), MODEL@URL of an endpoint, "
        f"{BASE} (the model that the run starts from) or {SELF}"
    )


def served_folder(config: "DictConfig", model: Path) -> Path | None:
    """Return the folder of the teacher that verl serves with the policy of ``model``; None without a teacher."""
    if not has_server(config):
        return None
    name = config.method.teacher.model
    return model if name == BASE else teacher_folder(name)


def check_teacher(config: "DictConfig", model: Path) -> None:
    """Check that the teacher of a run that starts from ``model`` can score its tokens.

    Raises:
        InputError: none is named, it is not there or not whole, its context is too short, it has another tokenizer, or
            an endpoint does not return what it should.
    """
    teacher, top = teacher_of(config), top_tokens(config)
    count = len(vocabulary(model)) if top else 0
    if top > count:
        raise InputError(
            f"method.divergence.k={top}: the tokenizer of {model} has only {count} tokens: lower it to {count} or less"
        )
    if teacher is None or teacher.model == SELF:
        return
    if teacher.model is None:
        raise InputError(
            f"{MODEL}=null: the method needs a teacher: set it to a model folder, a hub id, MODEL@URL "
            f"of an endpoint that returns prompt_logprobs, or {BASE}"
        )
    if endpoint := endpoint_of(teacher.model):
        return check_endpoint(*endpoint, model, top)
    folder = served_folder(config, model)
    assert folder is not None
    check_model(folder, "sample")
    needed = longest_scored(config) + config.data.max_response_length + 1
    context = read_object(folder / "config.json").get("max_position_embeddings")
    if isinstance(context, int) and context < needed:
        raise InputError(
            f"{MODEL}={folder}: a context of {context} tokens (max_position_embeddings), but a score needs {needed}: "
            "lower data.max_response_length, or take another teacher"
        )
    check_tokens(folder, model)


def check_tokens(teacher: Path, model: Path) -> None:
    """Raise InputError unless each token of ``model`` is a token of ``teacher`` with the same id."""
    theirs, ours = vocabulary(teacher), vocabulary(model)
    different = sorted((token_id, token) for token, token_id in ours.items() if theirs.get(token) != token_id)
    if different:
        token_id, token = different[0]
        raise InputError(
            f"{MODEL}={teacher}: another tokenizer than {model}: {len(different)} of its {len(ours)} tokens, "
            f"such as {token!r} ({token_id}), have another id there or are missing, so the teacher cannot score "
            "them: take a teacher of the same family"
        )


def vocabulary(folder: Path) -> Mapping[str, int]:
    """Return the id of each token of the tokenizer in ``folder``, added ones included."""
    return _tokenizer(folder).get_vocab(with_added_tokens=True)


def check_endpoint(name: str, url: str, model: Path, top: int = 0) -> None:
    """Ask an endpoint for the scores of some tokens of ``model``, and compare what it says they are.

    ``top``: how many scores each place must have.

    Raises:
        InputError: it cannot be reached, refuses the request, returns no ``prompt_logprobs``, or has other tokens.
    """
    import openai

    tokenizer = _tokenizer(model)
    count = tokenizer.get_vocab_size(with_added_tokens=True)
    probed = list(range(0, count, max(1, count // PROBED)))
    where = f"{MODEL}={name}@{url}"
    try:
        answer = open_client(url, timeout=SECONDS).completions.create(
            model=name, prompt=probed, max_tokens=1, extra_body={"prompt_logprobs": top}
        )
    except (openai.OpenAIError, ValueError, ImportError) as error:  # also no JSON, or a proxy that cannot be used
        raise InputError(
            f"{where}: the endpoint does not score tokens of {model}: {first_line(error)}. Check the address, the name "
            "of the model and OPENAI_API_KEY; a model with fewer tokens has another tokenizer"
            + (f"; for method.divergence.k={top} start vLLM with --max-logprobs {top}" if top else "")
        ) from error
    choices = getattr(answer, "choices", None) or [None]
    scores: Any = getattr(choices[0], "prompt_logprobs", None)
    if not scores or len(scores) != len(probed) or any(len(entry or ()) < max(top, 1) for entry in scores[1:]):
        raise InputError(
            f"{where}: it returns no prompt_logprobs for a prompt of token ids: expected a server that does, such as "
            "`vllm serve`"
        )
    for token_id, entry in zip(probed[1:], scores[1:], strict=True):
        theirs = entry.get(str(token_id), {}).get("decoded_token")
        ours = tokenizer.decode([token_id], skip_special_tokens=False)
        if theirs is None or (theirs != ours and "\N{REPLACEMENT CHARACTER}" not in theirs + ours):
            raise InputError(
                f"{where}: another tokenizer than {model}: the token {token_id} is {ours!r} here and "
                f"{theirs!r} there, so the teacher cannot score it: take a teacher of the same family"
            )


def _tokenizer(folder: Path) -> Any:
    import tokenizers

    file = folder / "tokenizer.json"
    if not file.is_file():
        raise InputError(f"{folder}: no tokenizer.json in it, by which the tokens of teacher and policy are compared")
    return tokenizers.Tokenizer.from_file(str(file))
