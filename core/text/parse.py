"""Parse JSON and YAML from users, or refuse it with one message, however broken it is."""

import json
from collections.abc import Iterable
from typing import Any

from core.errors import InputError, first_line

DEEPEST = 100  # levels of nesting; libyaml crashes the process far beyond, Python's own parsers give up at about 1000


def parse_json(content: str | bytes, where: str, *, unique: bool = False) -> Any:
    """Parse a JSON text; InputError that starts with ``where`` if it has no value that the project can hold.

    ``unique``: refuse an object that has a key twice, of which Python takes the last one.
    """
    try:
        value = json.loads(content, object_pairs_hook=(lambda pairs: _object(pairs, where)) if unique else None)
        escapes = b"\\u" in content if isinstance(content, bytes) else "\\u" in content
        if escapes:
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise InputError(f"{where}: nested too deep; expected at most {DEEPEST} levels") from None
    except UnicodeEncodeError:
        raise InputError(f"{where}: a lone surrogate, half of a character, in a text; write the whole one") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: not UTF-8 at byte {error.start}; convert it to UTF-8") from None
    except InputError:
        raise
    except ValueError as error:  # also whole numbers of more than 4,300 digits
        raise InputError(f"{where}: not JSON ({first_line(error)})") from None
    return value


def parse_object(content: str | bytes, where: str, *, unique: bool = False) -> dict[str, Any]:
    """Return the object in a JSON text; InputError if it is another value; ``unique`` as in `parse_json`."""
    value = parse_json(content, where, unique=unique)
    if not isinstance(value, dict):
        raise InputError(f"{where}: expected a JSON object, got a {type(value).__name__}")
    return value


def parse_yaml(content: str | bytes, where: str) -> Any:
    """Return the value of a YAML text; InputError that starts with ``where`` if it is none."""
    import yaml

    try:
        _check_depth(yaml.parse(content, Loader=yaml.CSafeLoader), where)
        loader = yaml.CSafeLoader(content)
        node = loader.get_single_node()
        _check_keys(node, where)
        return loader.construct_document(node) if node else None
    except yaml.YAMLError as error:
        raise InputError(f"{where}: not YAML: {' '.join(str(error).split())}") from None
    except InputError:
        raise
    except ValueError as error:  # a date that does not exist, bytes that are no text
        raise InputError(f"{where}: not YAML: {first_line(error)}") from None


def _check_keys(node: Any, where: str) -> None:
    """Raise InputError for a mapping below a YAML node that has a key twice; the parser would take the last one."""
    import yaml

    nodes, visited = [node], set[int]()
    while nodes:
        node = nodes.pop()
        if id(node) in visited or not isinstance(node, yaml.CollectionNode):
            continue
        visited.add(id(node))  # aliases name a node again
        if not isinstance(node, yaml.MappingNode):
            nodes += node.value
            continue
        names = set[tuple[str, str]]()
        for key, value in node.value:
            nodes += (key, value)
            if isinstance(key, yaml.ScalarNode):
                if (name := (key.tag, key.value)) in names:  # 1 is another key than "1"
                    line = key.start_mark.line + 1
                    raise InputError(f"{where}, line {line}: the key {key.value:.80} is given twice; give it once")
                names.add(name)


def _object(pairs: list[tuple[str, Any]], where: str) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in values if names.count(name) > 1)
        raise InputError(f"{where}: the key {twice:.80} is given twice; give it once")
    return values


def _check_depth(events: Iterable[Any], where: str) -> None:
    import yaml

    depth = 0
    for event in events:
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise InputError(f"{where}: nested too deep; expected at most {DEEPEST} levels")
