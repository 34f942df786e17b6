"""Valid JSON that satisfies a schema, or equals the gold answer, or both.

What RFC 8259 leaves open is refused: a key that an object repeats, NaN and Infinity.
"""

import json
import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from pydantic import JsonValue, field_validator

from core.errors import first_line
from core.text.patterns import compile_user_pattern
from grading.answers.extraction import JSON, json_value
from grading.verdict import UnfitGold
from grading.verifiers.verifier import Verifier, VerifierOptions

LONGEST = 100_000  # characters of an answer
MATCHED_KEYS = "patternProperties"


class JsonOptions(VerifierOptions):
    """``schema``: a JSON Schema (2020-12). ``equals_gold``: by default only where there is no schema."""

    answer: str = JSON
    json_schema: dict[str, JsonValue] | None = None
    equals_gold: bool = False

    @field_validator("json_schema")
    @classmethod
    def _is_a_schema(cls, schema: dict[str, JsonValue] | None) -> dict[str, JsonValue] | None:
        if schema is not None:
            _check_schema(schema)
        return schema


class JsonVerifier(Verifier):
    """The answer is the last object or array after the thoughts, unless ``answer`` names another place.

    Where the gold answer or the schema is an object's, an array of plain values is none: it may be a reference.
    """

    Options = JsonOptions

    def __init__(self, options: JsonOptions, resources: Any) -> None:
        super().__init__(options, resources)
        self._equals = options.equals_gold or options.json_schema is None
        self._schema = None if options.json_schema is None else _validator(options.json_schema)

    def extract(self, part: str, gold: str, fields: Mapping[str, Any]) -> str | None:
        if self.options.answer != JSON:
            return super().extract(part, gold, fields)
        schema = self.options.json_schema or {}
        is_object = gold.lstrip().startswith("{") if self._equals else schema.get("type") == "object"
        return json_value(part, objects=is_object)

    def expected(self, gold: str, fields: Mapping[str, Any]) -> Any:
        if not self._equals:
            return None
        try:
            value = read_strictly(gold)
        except (ValueError, RecursionError) as error:
            raise UnfitGold(f"{gold!r:.80} is not JSON: {first_line(error)}") from None
        if problem := self._violation(value):
            raise UnfitGold(problem)
        return value

    def compare(self, answer: str, expected: Any) -> tuple[bool, str]:
        try:
            value = read_strictly(answer)
            if problem := self._violation(value):
                return False, problem
            is_same = not self._equals or same_value(value, expected)
        except (ValueError, RecursionError) as error:
            return False, f"not JSON: {first_line(error)}"
        if not self._equals:
            return True, "satisfies the schema"
        return is_same, "the same value" if is_same else "a different value"

    def _violation(self, value: Any) -> str | None:
        try:
            error = next(iter(self._schema.iter_errors(value)), None) if self._schema else None
        except RecursionError:
            return "the value is nested too deep, or a $ref of the schema leads to itself"
        return None if error is None else f"{error.json_path}: {error.message:.150}"


def read_strictly(text: str) -> Any:
    """Return the value of a JSON text that everybody reads alike.

    Raises:
        ValueError: it is none, it is too long, or an object in it repeats a key.
        RecursionError: it is nested too deep.

    >>> read_strictly('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    ValueError: an object repeats the key 'a'
    """
    if len(text) > LONGEST:
        raise ValueError(f"{len(text)} characters (limit {LONGEST})")
    return json.loads(text, object_pairs_hook=_object, parse_constant=_refuse_constant, parse_float=_finite)


def same_value(first: Any, second: Any) -> bool:
    """Return whether two JSON values are equal: 1 is 1.0 but not true, and the order of keys does not count."""
    return _canonical(first) == _canonical(second)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys: set[str] = set()
    for key, _ in pairs:
        if key in keys:
            raise ValueError(f"an object repeats the key {key!r:.80}")
        keys.add(key)
    return dict(pairs)


def _finite(text: str) -> float:
    if math.isinf(number := float(text)):
        raise ValueError(f"{text:.80} is beyond what a number can hold")
    return number


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _check_schema(schema: dict[str, JsonValue]) -> None:
    """Raise ValueError for a schema that is none, asks the network, or needs a pattern that RE2 lacks."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError
    from referencing import Registry, Resource
    from referencing.jsonschema import DRAFT202012

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise ValueError(f"not a JSON Schema: {error.json_path}: {error.message:.150}") from None
    resolver = Registry().resolver_with_root(Resource(schema, DRAFT202012))
    for part in _parts(schema):
        if MATCHED_KEYS in part:
            raise ValueError(f"{MATCHED_KEYS} is not supported: use propertyNames with a pattern")
        if isinstance(pattern := part.get("pattern"), str):
            compile_user_pattern(pattern)
        for key in ("$ref", "$dynamicRef"):
            if isinstance(reference := part.get(key), str):
                _check_reference(key, reference, resolver)


def _check_reference(key: str, reference: str, resolver: Any) -> None:
    from referencing.exceptions import Unresolvable

    if not reference.startswith("#"):
        raise ValueError(f"{key}: {reference!r:.80} is outside the schema: write it into $defs")
    try:
        target = resolver.lookup(reference).contents
    except Unresolvable:
        target = None
    if not isinstance(target, dict | bool):
        raise ValueError(f"{key}: there is no schema at {reference!r:.80}: write it into $defs")


def _parts(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _parts(inner)


def _validator(schema: dict[str, JsonValue]) -> Any:
    """Return a validator that takes linear time in the length of a value, and reads no other schema."""
    from jsonschema import Draft202012Validator, validators
    from jsonschema.exceptions import ValidationError
    from referencing import Registry

    def matches(_validator: Any, pattern: str, instance: Any, _schema: Any) -> Iterator[ValidationError]:
        if isinstance(instance, str):
            text = instance.encode(errors="replace").decode()
            if not compile_user_pattern(pattern).search(text):
                yield ValidationError(f"{instance!r:.80} does not match {pattern!r:.80}")

    def are_unique(_validator: Any, unique: bool, instance: Any, _schema: Any) -> Iterator[ValidationError]:
        if unique and isinstance(instance, list) and len({_canonical(item) for item in instance}) < len(instance):
            yield ValidationError(f"{instance!r:.80} has non-unique elements")

    def is_multiple(validator: Any, divisor: float, instance: Any, _schema: Any) -> Iterator[ValidationError]:
        if validator.is_type(instance, "number") and Fraction(str(instance)) % Fraction(str(divisor)):
            yield ValidationError(f"{instance!r} is not a multiple of {divisor}")

    rules = {"pattern": matches, "uniqueItems": are_unique, "multipleOf": is_multiple}
    linear = validators.extend(Draft202012Validator, rules)
    return linear(schema, registry=Registry())


def _canonical(value: Any) -> str:
    """Return one spelling for values that are equal: 1 and 1.0 are."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{_canonical(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return f"[{','.join(map(_canonical, value))}]"
    whole = isinstance(value, float) and value.is_integer()
    return json.dumps(int(value) if whole else value)
