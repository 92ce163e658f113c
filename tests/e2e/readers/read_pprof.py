"""Decodes a pprof profile with Google's protobuf runtime and checks what the format asks for. Prints sums as JSON."""

import collections
import gzip
import json
import sys

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

# Name, number, type of each field; * is repeated, a capital letter begins a message.
MESSAGES = {
    "Profile": "sample_type 1 *ValueType, sample 2 *Sample, mapping 3 *Mapping, location 4 *Location, function 5 *Function, "
    "string_table 6 *string, drop_frames 7 int64, keep_frames 8 int64, time_nanos 9 int64, duration_nanos 10 int64, "
    "period_type 11 ValueType, period 12 int64, comment 13 *int64, default_sample_type 14 int64",
    "ValueType": "type 1 int64, unit 2 int64",
    "Sample": "location_id 1 *uint64, value 2 *int64, label 3 *Label",
    "Label": "key 1 int64, str 2 int64, num 3 int64, num_unit 4 int64",
    "Mapping": "id 1 uint64, memory_start 2 uint64, memory_limit 3 uint64, file_offset 4 uint64, filename 5 int64, build_id 6 int64, "
    "has_functions 7 bool, has_filenames 8 bool, has_line_numbers 9 bool, has_inline_frames 10 bool",
    "Location": "id 1 uint64, mapping_id 2 uint64, address 3 uint64, line 4 *Line, is_folded 5 bool",
    "Line": "function_id 1 uint64, line 2 int64",
    "Function": "id 1 uint64, name 2 int64, system_name 3 int64, filename 4 int64, start_line 5 int64",
}
Field = descriptor_pb2.FieldDescriptorProto
TYPES = {"int64": Field.TYPE_INT64, "uint64": Field.TYPE_UINT64, "bool": Field.TYPE_BOOL, "string": Field.TYPE_STRING}
file = descriptor_pb2.FileDescriptorProto(name="profile.proto", package="pprof", syntax="proto3")
for name, fields in MESSAGES.items():
    message = file.message_type.add(name=name)
    for word in fields.split(", "):
        field, number, kind = word.split(" ")
        repeated, kind = kind.startswith("*"), kind.lstrip("*")
        new = message.field.add(name=field, number=int(number))
        new.label = Field.LABEL_REPEATED if repeated else Field.LABEL_OPTIONAL
        new.type = TYPES.get(kind, Field.TYPE_MESSAGE)
        if kind not in TYPES:
            new.type_name = f".pprof.{kind}"
pool = descriptor_pool.DescriptorPool()
pool.Add(file)
profile = message_factory.GetMessageClass(pool.FindMessageTypeByName("pprof.Profile"))()
profile.ParseFromString(gzip.open(sys.argv[1]).read())

text = profile.string_table
assert text[0] == "" and len(set(text)) == len(text)
functions = {f.id: f for f in profile.function}
mappings = {m.id: text[m.filename] for m in profile.mapping}
locations = {l.id: l for l in profile.location}
assert 0 not in functions and 0 not in mappings and 0 not in locations
for location in profile.location:
    assert location.mapping_id == 0 or location.mapping_id in mappings
    assert location.line and all(line.function_id in functions for line in location.line)
types = [(text[t.type], text[t.unit]) for t in profile.sample_type]
sums, by_cause, by_op, deepest = [0] * len(types), collections.Counter(), collections.Counter(), []
for sample in profile.sample:
    assert len(sample.value) == len(types) and sample.location_id
    labels = {text[l.key]: text[l.str] if l.str else l.num for l in sample.label}
    sums = [a + b for a, b in zip(sums, sample.value)]
    by_cause[labels["cause"]] += sample.value[1]
    by_op[labels["op"]] += sample.value[0]
    assert labels["pid"] > 0 and "comm" in labels
    names = [text[functions[locations[l].line[0].function_id].name] for l in sample.location_id]
    deepest = max(deepest, names, key=len)
print(json.dumps({
    "types": types,
    "default": text[profile.default_sample_type],
    "sums": sums,
    "by_cause": by_cause,
    "by_op": by_op,
    "deepest": deepest,
    "modules": sorted(mappings.values()),
    "comments": [text[c] for c in profile.comment],
    "time": profile.time_nanos,
    "longest": max(len(t) for t in text),
}))
