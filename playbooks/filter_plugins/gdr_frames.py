"""Reads what apply.sh and the probe print, on an Ansible controller without the toolkit.

The sentences are those of the toolkit itself; its tests hold the two against each other. Runs
under every Python that Ansible's controllers have, from 3.9 on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

_BEGIN = "= begin ok "
_HEADER = re.compile(r"= ([!-~]+) (ok|absent|denied|timeout|failed:([0-9]{1,3}))(?: (.*))?")
_STALE = "65"  # what apply.sh says of an expectation that does not hold
_AT_BOOT = ("UPDATE_BOOTLOADER ", "REBUILD_INITRAMFS ")  # triggers that the next boot shows
_ASIDE = ("expect ", "keep ", "undo ")  # steps that only look or note
_TAIL = 12  # lines of a command's output that a sentence shows


@dataclass
class Frame:
    """One header, and the lines behind bars below it."""

    key: str
    state: str  # "ok", "absent", "failed:1"
    status: str  # "1", or "" where it did not fail
    source: str
    text: str = ""


def _frames(stdout: str) -> tuple[dict[str, Frame], bool]:
    """The frames by key, and whether the last one came and counts right.

    A frame counts as read only once the next header has arrived: the last may have been cut.
    """
    found: dict[str, Frame] = {}
    last = None
    # Without a terminal between, a line ends as the node has ended it.
    for line in stdout.partition(_BEGIN)[2].split("\n")[1:]:
        if line.startswith("|"):
            if last is not None:
                last.text += f"{line[1:]}\n"
            continue
        header = _HEADER.fullmatch(line.rstrip("\r"))
        if header is None:
            continue
        key, state, status, source = header.groups(default="")
        if last is not None:
            found[last.key] = last
        if key == "end":
            return found, source == str(len(found))
        last = Frame(key, state, status, source)
    return found, False


def applied(result: dict[str, Any], host: str) -> dict[str, Any]:
    """What a call of run.sh did, would do, or stumbled over.

    Any: Ansible's results and what its templates read are dictionaries.

    :param result: what the task has registered.
    :returns: "trouble" (a sentence; "" for none), "changed", "did" and "would" (calls), "settled"
        (carried out earlier, and as it was left), "standing" (runs of this bundle that are not
        taken back), "boots" (the next boot shows some of it).
    """
    frames, complete = _frames(str(result.get("stdout", "")))
    steps = [f for f in frames.values() if f.key[:1].isdigit() and not f.key.endswith(".output")]
    acts = [f for f in steps if not _source(f).startswith(_ASIDE)]
    did = [_source(f) for f in acts if f.state == "ok"]
    told = [_source(f) for f in steps]
    told += [
        line for f in frames.values() if f.key.startswith("run") for line in f.text.split("\n")
    ]
    standing = frames["standing"].source.split() if "standing" in frames else []
    return {
        "trouble": _trouble(result, host, frames, steps, complete=complete),
        "changed": bool(did) or any(f.state != "ok" for f in acts if f"{f.key}.output" in frames),
        "did": did,
        "would": [_source(f) for f in acts if f.state == "absent"],
        "settled": "settled" in frames,
        "standing": standing,
        "boots": any(line.startswith(_AT_BOOT) for line in told),
    }


def _source(frame: Frame) -> str:
    return frame.source.removeprefix("not begun: ")


def _trouble(
    result: dict[str, Any],
    host: str,
    frames: dict[str, Frame],
    steps: list[Frame],
    *,
    complete: bool,
) -> str:
    if _BEGIN not in str(result.get("stdout", "")):
        return silent(result, host)
    refused = next(_refused(frames), "")
    if refused:
        return f"{host}: {refused}"
    failed = [f for f in steps if f.status]
    if (failed or not complete) and any(key.startswith("run-") for key in frames):
        lines = [f"{f.source}: {_output(f, frames) or f'status {f.status}'}" for f in failed]
        return f"{host}: not all was taken back: " + ("\n".join(lines) or "the script broke off")
    stand = _standing(steps, frames)
    if failed:
        what = f"{failed[0].source} ended with status {failed[0].status}; {stand}"
        return f"{host}: {what}\n{_output(failed[0], frames)}".rstrip()
    return "" if complete else f"{host}: the script broke off; {stand}"


def _output(step: Frame, frames: dict[str, Frame]) -> str:
    output = frames.get(f"{step.key}.output")
    return _tail((output.text if output else "") + step.text)


def silent(result: dict[str, Any], host: str) -> str:
    """The sentence for a node that said nothing that can be read."""
    if result.get("unreachable"):
        return f"{host}: out of reach: {_last(str(result.get('msg', '')))}"
    said = _last(str(result.get("stderr", ""))) or _last(str(result.get("stdout", "")))
    said = said or _last(str(result.get("msg", ""))) or "nothing"
    return f"{host}: the script ended with {result.get('rc', 'no status')} and said: {said}"


def _refused(frames: dict[str, Frame]) -> Iterator[str]:
    """What kept the run from touching anything."""
    if "lock" in frames:
        yield f"{frames['lock'].text.strip() or 'another run holds the node'}; nothing was touched"
    if "signature" in frames:
        yield f"{frames['signature'].text.strip()}; nothing was touched"
    for key in ("state", "unpack", "steps"):
        if key in frames:
            yield f"{frames[key].source}: {frames[key].text.strip() or 'cannot be written'}"
    for frame in frames.values():
        if frame.status == _STALE and ".expect" in frame.key:
            yield f"{frame.text.strip()}; nothing was touched; plan again: ./invokew playbook"
    if "restart" in frames and frames["restart"].status:
        yield frames["restart"].source


def _standing(steps: list[Frame], frames: dict[str, Frame]) -> str:
    """ "3 steps before it stand, 2 were not begun"; what only looks or notes is not counted."""
    if not steps:
        return "nothing is known to stand"
    acts = [f for f in steps if not _source(f).startswith(_ASIDE)]
    done = sum(f.state == "ok" for f in acts)
    waiting = sum(f.state == "absent" for f in acts)
    stand = f"{done} step{'s' * (done > 1)} before it stand{'s' * (done == 1)}"
    later = f", {waiting} {'was' if waiting == 1 else 'were'} not begun" if waiting else ""
    if not done:
        ran = any(f"{f.key}.output" in frames for f in acts)
        stand = "no step before it" if ran else "nothing was touched"
    return stand + later


def _tail(text: str) -> str:
    return "\n".join(text.rstrip("\n").split("\n")[-_TAIL:])


def _last(text: str) -> str:
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    return lines[-1][:300] if lines else ""


def evidence(result: dict[str, Any], host: str) -> dict[str, Any]:
    """Whether a node's evidence came whole.

    :returns: "trouble" (a sentence; "" for none), "text", word for word, and "boot", the id of the
        boot that it was read in.
    """
    stdout = str(result.get("stdout", ""))
    frames, complete = _frames(stdout)
    if not frames:
        return {"trouble": silent(result, host), "text": "", "boot": ""}
    count = f"{len(frames)} frame{'s' * (len(frames) != 1)}"
    cut = "" if complete else f"{host}: the evidence breaks off after {count}"
    boot = frames["boot-id"].text.strip() if "boot-id" in frames else ""
    return {"trouble": cut, "text": _BEGIN + stdout.partition(_BEGIN)[2], "boot": boot}


def busy(result: dict[str, Any], host: str, rules: dict[str, Any]) -> str:
    """Whose work a reboot would end, in one sentence; "" for nobody's.

    :param rules: scripts/jobs.json: "daemons" (names), "work" (an expression for devices that jobs
        open), "first_person" (the lowest uid that is a person's).
    """
    frames, complete = _frames(str(result.get("stdout", "")))
    users, uid = frames.get("users"), frames.get("uid")
    if (
        users is None
        or uid is None
        or users.state != "ok"
        or uid.text.strip() != "0"
        or not complete
    ):
        return f"{host}: not rebooted: it cannot be told whether a job is at work"
    found = [told for told in (_worker(each, rules) for each in _blocks(users.text)) if told]
    more = f", and {len(found) - 3} more" if len(found) > 3 else ""
    return f"{host}: not rebooted: at work: {'; '.join(found[:3])}{more}" if found else ""


def _blocks(text: str) -> list[list[str]]:
    """ "@PID", and the lines below it."""
    return [block.split("\n") for block in ("\n" + text).split("\n@")[1:]]


def _worker(block: list[str], rules: dict[str, Any]) -> str:
    pairs = [line.partition(":\t")[::2] for line in block[1:]]
    told = {key: value for key, value in pairs if key != "Device"}
    uid = int(told.get("Uid", "-1").split("\t")[0])
    name = "".join(char if char.isprintable() else "?" for char in told.get("Name", "?"))
    if name in rules["daemons"] and uid < rules["first_person"]:
        return ""
    works = any(key == "Device" and re.match(rules["work"], value) for key, value in pairs)
    return f"{name}, pid {block[0]} of uid {uid}" if works else ""


def verdict(result: dict[str, Any], host: str) -> str:
    """What doctor, run on the controller, makes of one node: "" where it is content."""
    if result.get("rc") == 0:
        return ""
    try:
        node = json.loads(str(result.get("stdout", "")))["hosts"][0]
        verdicts = [each for each in node["verdicts"] or () if not each["waived"]]
    except (ValueError, KeyError, IndexError, TypeError):
        said = str(result.get("stderr", "")) or str(result.get("msg", ""))
        return f"{host}: not judged: {_last(said)}"
    if node["error"]:
        return f"{host}: not judged: {node['error'].get('message', 'no reason was given')}"
    wrong = [each for each in verdicts if each["status"] in ("fail", "unknown")]
    lines = [f"{host}: {each['status']} {each['check']}: {each['found']}" for each in wrong]
    return "\n".join(lines) or f"{host}: not judged: doctor ended with {result.get('rc')}"


def script(path: str) -> str:
    """The path as the first word of a ``script`` task, whatever it holds.

    The module splits the words as sh does, and then looks for the path in them as it stands, to
    put the node's copy in its place: so nothing may stand between its characters.

    :raises ValueError: no quotes are left to put around it.
    """
    if "'" not in path:
        return f"'{path}'"
    if re.search(r'["\\$`]', path):
        raise ValueError(f"{path}: Ansible can run no script from there; rename the folder")
    return f'"{path}"'


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Name to function."""
        return {
            "gdr_applied": applied,
            "gdr_busy": busy,
            "gdr_evidence": evidence,
            "gdr_script": script,
            "gdr_silent": silent,
            "gdr_verdict": verdict,
        }
