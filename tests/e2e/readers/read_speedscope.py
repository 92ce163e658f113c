"""Checks a file against what speedscope documents of its format, and prints its sums as JSON."""

import json
import sys

import jsonschema

FRAME = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string"},
        "file": {"type": "string"},
        "line": {"type": "number"},
        "col": {"type": "number"},
    },
    "additionalProperties": False,
}
PROFILE = {
    "type": "object",
    "required": ["type", "name", "unit", "startValue", "endValue", "samples", "weights"],
    "properties": {
        "type": {"const": "sampled"},
        "name": {"type": "string"},
        "unit": {"enum": ["bytes", "microseconds", "milliseconds", "nanoseconds", "none", "seconds"]},
        "startValue": {"type": "number"},
        "endValue": {"type": "number"},
        "samples": {"type": "array", "items": {"type": "array", "items": {"type": "integer", "minimum": 0}}},
        "weights": {"type": "array", "items": {"type": "number"}},
    },
    "additionalProperties": False,
}
SCHEMA = {
    "type": "object",
    "required": ["$schema", "shared", "profiles"],
    "properties": {
        "$schema": {"const": "https://www.speedscope.app/file-format-schema.json"},
        "shared": {
            "type": "object",
            "required": ["frames"],
            "properties": {"frames": {"type": "array", "items": FRAME}},
        },
        "profiles": {"type": "array", "items": PROFILE},
        "name": {"type": "string"},
        "activeProfileIndex": {"type": "number"},
        "exporter": {"type": "string"},
    },
}

with open(sys.argv[1], encoding="utf-8") as file:
    data = json.load(file)
jsonschema.Draft202012Validator(SCHEMA).validate(data)
frames = data["shared"]["frames"]
for profile in data["profiles"]:
    assert len(profile["samples"]) == len(profile["weights"])
    assert sum(profile["weights"]) == profile["endValue"] - profile["startValue"]
    assert all(frame < len(frames) for sample in profile["samples"] for frame in sample)
print(json.dumps({
    "ns": sum(sum(profile["weights"]) for profile in data["profiles"]),
    "profiles": [profile["name"] for profile in data["profiles"]],
    "frames": len(frames),
    "coverage": data["gpuwhy"]["coverage"],
    "longest": max(len(frame["name"]) for frame in frames),
}))
