"""What commands print: results on standard output, messages on standard error, and one sentence for
what is refused."""

import errno
import json
import math
import re
import sys
from dataclasses import fields
from typing import Annotated, Any, get_args, get_type_hints

from tyro.conf import FlagCreatePairsOff, arg

from .worlds.registry import did_you_mean

Switch = Annotated[bool, FlagCreatePairsOff, arg(help_behavior_hint="")]

KINDS = {int: "a whole number", float: "a number", str: "a word", tuple: "a row and a column"}


def say(message: str) -> None:
    """A message for the person: standard output is kept for results."""
    print(message, file=sys.stderr)


def show(result: Any, as_json: bool, text: str) -> None:
    """A result: as one JSON object, or as text."""
    print(json.dumps(_defined(result), allow_nan=False) if as_json else text)


def _defined(value: Any) -> Any:
    """The same with null for numbers that are none, which JSON does not know."""
    if isinstance(value, dict):
        return {name: _defined(x) for name, x in value.items()}
    if isinstance(value, list):
        return [_defined(x) for x in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def explain(
    panel: str, args: list[str], commands: dict[str, Any], program: str = "empowerment"
) -> str:
    """One sentence for a command line that the parser has refused; `panel` is what the parser
    wrote."""
    command = args[0] if args else ""
    if command not in commands:
        if command.startswith("-"):
            return f"option {command!r} is unknown; see '{program} --help'"
        return (
            f"command {command!r} is unknown{did_you_mean(command, commands)}; give one of "
            f"{', '.join(commands)}"
        )
    flags = {f"--{field.name.replace('_', '-')}": field.name for field in fields(commands[command])}
    text = " ".join(re.sub(r"[\u2500-\u257f]", " ", panel).split()).split(" For full helptext")[0]
    return f"{_reason(text, args[1:], flags, commands[command])}; see '{program} {command} --help'"


def _reason(text: str, words: list[str], flags: dict[str, str], command: Any) -> str:
    for word in words:
        flag = word.split("=")[0]
        if flag.startswith("--") and flag not in flags:
            return f"option {flag!r} is unknown{did_you_mean(flag, flags)}"
    wrong = re.search(r"Error parsing (--[\w-]+)", text)
    if wrong and wrong[1] in flags:
        kind = _kind(get_type_hints(command)[flags[wrong[1]]])
        return f"{wrong[1]} takes {kind}, not {_value(wrong[1], words)!r}"
    empty = re.search(r"Missing value for argument '\W*(--[\w-]+)", text)
    if empty and empty[1] in flags:
        return (
            f"{empty[1]} takes {_kind(get_type_hints(command)[flags[empty[1]]])}, and none is given"
        )
    missing = re.search(r"Missing from empowerment [\w ]+: (\S+)", text)
    if missing:
        return f"{missing[1]} is missing"
    extra = re.search(r"Unrecognized options: ([^\s,]+)", text)
    if extra:
        return f"{extra[1]!r} is not understood"
    return text or "the command line is not understood"


def _kind(hint: Any) -> str:
    """What a flag of this type takes, in words."""
    for kind, words in KINDS.items():
        if hint is kind or any(
            part is kind or getattr(part, "__origin__", None) is kind for part in get_args(hint)
        ):
            return words
    return "a value"


def _value(flag: str, words: list[str]) -> str:
    """What was typed after a flag, up to the next one."""
    for i, word in enumerate(words):
        if word == flag:
            rest = words[i + 1 :]
            end = next((j for j, other in enumerate(rest) if other.startswith("--")), len(rest))
            return " ".join(rest[:end])
        if word.startswith(f"{flag}="):
            return word.removeprefix(f"{flag}=")
    return ""


def explain_os(error: OSError) -> str:
    """One sentence for a file or directory that cannot be used."""
    name = repr(str(error.filename)) if error.filename is not None else "a file"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return (
            f"{name} cannot be written or read: permission denied; choose another place (--out), "
            "or give access"
        )
    if error.errno in (errno.EEXIST, errno.ENOTDIR):
        return (
            f"{name} is, or lies in, a file where a directory is needed; choose another place "
            "(--out)"
        )
    if error.errno == errno.ENOSPC:
        return f"the disk is full while writing {name}; make room, or choose another place (--out)"
    return f"{name}: {error.strerror or error}" if error.filename is not None else str(error)
