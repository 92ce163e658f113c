"""Judges what `gpuwhy explain --json` said of a program against what is known of it."""

import json
import pathlib
import re

from table import HERE, lines_of

SEVERITIES = ["low", "medium", "high", "critical"]
COLUMNS = ["class", "culprit", "line", "severity", "saving"]
# How many of a stack's own frames may hold the expected line.
OWN_FRAMES = 3


def own_frames(finding):
    """The `(file, line)` of a finding's frames that are of the programs, innermost first."""
    ours = {path.name for path in HERE.glob("*.py")}
    places = (re.match(r"(.*?):(\d+)\b", frame) for frame in (finding.get("where") or {}).get("python") or [])
    split = ((pathlib.PurePath(place[1]), int(place[2])) for place in places if place)
    return [(path.name, line) for path, line in split if path.name in ours and path.parent.name in ("programs", "")]


def is_culprit(kind, finding, report):
    """Whether the one who is named first is who did it."""
    cause = finding["causes"][0]
    named = (cause.get("by") or [{}])[0]
    pid = named.get("pid") or finding.get("pid")
    kind, _, name = kind.partition(":")
    if kind == "self":
        return pid == report["pid"]
    if kind == "helper":
        return pid in [report["helpers"].get(one) for one in name.split("|")]
    if kind == "comm":
        return named.get("comm") in name.split("|")
    if kind == "thread":
        return named.get("comm") == name or report["threads"].get(name) in (named.get("pid"), named.get("tid"))
    words = json.dumps([cause, finding.get("title")])
    return named.get("pid") == report["peer"]["pid"] or re.search(rf":{report['peer']['port']}\b", words) is not None


def judge(program, answer, report):
    """What was said first of the loop, and whether each part of it is right; None where there is nothing to judge."""
    neighbour = report["helpers"].get("neighbour")
    findings = [finding for finding in answer["findings"] if finding.get("phase") in (None, "loop") and finding.get("pid") != neighbour]
    verdict = dict.fromkeys(COLUMNS)
    first = findings[0] if findings else None
    if not program.says:
        alarms = [finding for finding in findings if finding["severity"] != "low"]
        false = [finding for finding in alarms if class_of(finding) not in program.allow]
        verdict.update({"class": not false, "severity": not false})
        return dict(verdict, right=not false, best=not alarms, said="; ".join(map(in_short, alarms)) or "no alarm", finding=first)
    if first is None:
        missed = {"class": False, "culprit": False, "line": False, "severity": False}
        return dict(verdict, **missed, right=False, best=False, said="nothing", finding=None)
    said = class_of(first)
    expected = next((say for say in program.says if say.cause == said), program.says[0])
    verdict["class"] = said == expected.cause
    if expected.culprit:
        verdict["culprit"] = bool(first.get("causes")) and is_culprit(expected.culprit, first, report)
    frames = own_frames(first)
    if expected.mark:
        lines = lines_of(expected.mark)
        verdict["line"] = any(frame in lines for frame in frames[:OWN_FRAMES])
        verdict["line_exact"] = bool(frames) and frames[0] in lines
    verdict["severity"] = SEVERITIES.index(first["severity"]) >= SEVERITIES.index(program.least)
    if program.outlier_ms:
        lengths = [outlier["ms"] for step in answer.get("steps", []) for outlier in step.get("outliers", [])]
        verdict["outlier"] = any(0.8 * program.outlier_ms < ms < 1.3 * program.outlier_ms + 20 for ms in lengths)
    right = all(verdict[column] is not False for column in COLUMNS)
    return dict(verdict, right=right, best=said == program.says[0].cause, said=in_short(first), finding=first)


def class_of(finding):
    return finding["causes"][0]["class"] if finding.get("causes") else None


def in_short(finding):
    by = ((finding.get("causes") or [{}])[0].get("by") or [{}])[0]
    who = f" by {by.get('comm')}[{by.get('pid')}]" if by else ""
    where = "".join(f" at {file}:{line}" for file, line in own_frames(finding)[:1])
    return f"{finding['severity']} {class_of(finding)}{who}{where}: {finding.get('title')}"


def judge_saving(said, real_ms):
    """Within 15%, or half a millisecond where that is more."""
    return said is not None and abs(said - real_ms) <= max(0.15 * real_ms, 0.5)


def expected_words(program):
    if not program.says:
        return "no alarm" + "".join(f", or {cause}" for cause in program.allow)
    return " or ".join(" ".join(filter(None, [say.cause, say.culprit, say.mark])) for say in program.says)
