"""Reads a Perfetto trace with Perfetto's own protobuf classes, as its trace processor does: sorted by time, names by
their numbers, slices by begin and end. Prints what it found as JSON."""

import collections
import json
import sys

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

trace = Trace()
with open(sys.argv[1], "rb") as file:
    trace.ParseFromString(file.read())

INTERNED = ["event_categories", "event_names", "debug_annotation_names", "debug_annotation_string_values"]
texts = collections.defaultdict(dict)
functions, frames, stacks, mappings, paths = {}, {}, {}, {}, {}
tracks, events, clocks = {}, [], []

assert trace.packet[0].HasField("clock_snapshot")
assert trace.packet[1].sequence_flags & 1, "the state of the sequence is not cleared first"
for packet in trace.packet:
    assert packet.trusted_packet_sequence_id == 1
    if packet.HasField("clock_snapshot"):
        clocks = [clock.clock_id for clock in packet.clock_snapshot.clocks]
        assert packet.clock_snapshot.primary_trace_clock == 1
    if packet.HasField("trace_packet_defaults"):
        assert packet.trace_packet_defaults.timestamp_clock_id in clocks
    for kind in INTERNED:
        for entry in getattr(packet.interned_data, kind):
            text = entry.str.decode() if hasattr(entry, "str") else entry.name
            assert entry.iid and texts[kind].setdefault(entry.iid, text) == text
    for entry in packet.interned_data.function_names:
        functions[entry.iid] = entry.str.decode()
    for entry in packet.interned_data.mapping_paths:
        paths[entry.iid] = entry.str.decode()
    for entry in packet.interned_data.mappings:
        mappings[entry.iid] = [paths[iid] for iid in entry.path_string_ids]
    for entry in packet.interned_data.frames:
        frames[entry.iid] = functions[entry.function_name_id]
        assert entry.mapping_id in mappings
    for entry in packet.interned_data.callstacks:
        stacks[entry.iid] = [frames[iid] for iid in entry.frame_ids]
    if packet.HasField("track_descriptor"):
        track = packet.track_descriptor
        assert track.uuid and track.uuid not in tracks
        assert not track.parent_uuid or track.parent_uuid in tracks
        tracks[track.uuid] = track
    if packet.HasField("track_event"):
        assert packet.track_event.track_uuid in tracks, "an event without a track"
        events.append((packet.timestamp, packet.track_event))

# Equal times stay in their order.
events.sort(key=lambda pair: pair[0])

slices, open_slices, counters = [], collections.defaultdict(list), collections.Counter()
flows = collections.defaultdict(lambda: [[], []])


def value(annotation):
    kind = annotation.WhichOneof("value")
    if kind == "string_value_iid":
        return texts["debug_annotation_string_values"][annotation.string_value_iid]
    return getattr(annotation, kind)


for time, event in events:
    track = event.track_uuid
    if event.type == TrackEvent.TYPE_COUNTER:
        assert tracks[track].HasField("counter")
        counters[tracks[track].name] += 1
        continue
    if event.type == TrackEvent.TYPE_SLICE_END:
        begun = open_slices[track].pop()
        begun["ns"] = time - begun["start"]
        continue
    args = {texts["debug_annotation_names"][a.name_iid]: value(a) for a in event.debug_annotations}
    here = {
        "name": texts["event_names"][event.name_iid] if event.name_iid else event.name,
        "category": texts["event_categories"][event.category_iids[0]],
        "start": time,
        "ns": 0,
        "args": args,
        "stack": stacks[event.callstack_iid] if event.callstack_iid else None,
        "track": track,
    }
    slices.append(here)
    for flow in event.flow_ids:
        flows[flow][0].append(here)
    for flow in event.terminating_flow_ids:
        flows[flow][1].append(here)
    if event.type == TrackEvent.TYPE_SLICE_BEGIN:
        open_slices[track].append(here)
    else:
        assert event.type == TrackEvent.TYPE_INSTANT
assert not any(open_slices.values()), "a slice without an end"

arrows = [(start, end) for starts, ends in flows.values() for start in starts for end in ends]
for start, end in arrows:
    assert start["start"] <= end["start"], "an arrow that goes back in time"
by_category = collections.Counter(s["category"] for s in slices)
ns = collections.Counter()
for s in slices:
    ns[s["category"]] += s["ns"]
print(json.dumps({
    "slices": by_category,
    "ns": ns,
    "first": min(s["start"] for s in slices),
    "arrows": collections.Counter(f"{a['category']} to {b['category']}" for a, b in arrows),
    "arrow_names": sorted({f"{a['name']} > {b['name']}" for a, b in arrows})[:50],
    "counters": counters,
    "stacked": sum(1 for s in slices if s["stack"]),
    "deepest": max((s["stack"] for s in slices if s["stack"]), key=len, default=[]),
    "processes": sorted(t.process.process_name for t in tracks.values() if t.HasField("process")),
    "threads": sorted(t.thread.thread_name for t in tracks.values() if t.HasField("thread")),
    "tracks": sorted({t.name for t in tracks.values() if t.name}),
    "about": next(s["args"] for s in slices if s["category"] == "about"),
    "findings": [s["name"] for s in slices if s["category"] == "finding"],
    "longest_text": max(len(s["name"]) for s in slices),
    "unprintable": sum(1 for s in slices for c in s["name"] if ord(c) < 32 or 0x202A <= ord(c) <= 0x202E),
}))
