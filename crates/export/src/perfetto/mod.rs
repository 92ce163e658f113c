//! Perfetto's own format: a stream of packets, in which names, arguments and stacks are written once.

mod intern;
mod messages;

use crate::about::About;
use crate::stacks::Stacks;
use crate::timeline::{Arg, Kind, Sink, Slice, Track, walk};
use crate::{ExportError, Exported, Source};
use intern::{CallStacks, Texts};
use messages::{
    Clock, ClockSnapshot, CounterDescriptor, DebugAnnotation, InternedData, ProcessDescriptor,
    ThreadDescriptor, TracePacket, TracePacketDefaults, TrackDescriptor, TrackEvent,
};
use prost::Message;
use std::io::Write;

// Numbers of the format.
const SEQUENCE: u32 = 1;
const STATE_CLEARED: u32 = 1;
const NEEDS_STATE: u32 = 2;
const REALTIME: u32 = 1;
const BOOTTIME: u32 = 6;
const SLICE_BEGIN: u32 = 1;
const SLICE_END: u32 = 2;
const INSTANT: u32 = 3;
const COUNTER: u32 = 4;
const UNIT_SIZE_BYTES: u32 = 3;
/// Field 1 of the message that a file is: a packet with its length.
const PACKET: u8 = 0x0a;

/// A longer text is more likely one of its kind.
const MAX_INTERNED_LEN: usize = 128;

pub(crate) fn write(source: &Source<'_>, out: &mut dyn Write) -> Result<Exported, ExportError> {
    let about = About::of(source)?;
    let mut perfetto = Perfetto {
        source,
        out,
        bytes: Vec::new(),
        stacks: Stacks::default(),
        call_stacks: CallStacks::default(),
        categories: Texts::default(),
        names: Texts::default(),
        arg_names: Texts::default(),
        arg_texts: Texts::default(),
    };
    perfetto.begin(about.start_ns)?;
    walk(source, &about, &mut perfetto)
}

struct Perfetto<'a> {
    source: &'a Source<'a>,
    out: &'a mut dyn Write,
    /// The packet that is being written.
    bytes: Vec<u8>,
    stacks: Stacks,
    call_stacks: CallStacks,
    categories: Texts,
    names: Texts,
    arg_names: Texts,
    arg_texts: Texts,
}

impl Perfetto<'_> {
    /// All times are unix time, which viewers show as the trace's own.
    fn begin(&mut self, start_ns: u64) -> Result<(), ExportError> {
        let clock = |id| Clock { clock_id: Some(id), timestamp: Some(start_ns) };
        self.packet(&TracePacket {
            clock_snapshot: Some(ClockSnapshot {
                clocks: vec![clock(REALTIME), clock(BOOTTIME)],
                primary_trace_clock: Some(REALTIME),
            }),
            trusted_packet_sequence_id: Some(SEQUENCE),
            ..TracePacket::default()
        })?;
        self.packet(&TracePacket {
            trusted_packet_sequence_id: Some(SEQUENCE),
            first_packet_on_sequence: Some(true),
            sequence_flags: Some(STATE_CLEARED),
            trace_packet_defaults: Some(TracePacketDefaults { timestamp_clock_id: Some(REALTIME) }),
            ..TracePacket::default()
        })
    }

    fn packet(&mut self, packet: &TracePacket) -> Result<(), ExportError> {
        self.bytes.clear();
        self.bytes.push(PACKET);
        // A vector has room for everything.
        let _ = packet.encode_length_delimited(&mut self.bytes);
        Ok(self.out.write_all(&self.bytes)?)
    }

    fn event(&mut self, time_ns: u64, event: TrackEvent, news: InternedData) -> Result<(), ExportError> {
        let interned_data = if news == InternedData::default() { None } else { Some(news) };
        self.packet(&TracePacket {
            timestamp: Some(time_ns),
            trusted_packet_sequence_id: Some(SEQUENCE),
            sequence_flags: Some(NEEDS_STATE),
            track_event: Some(event),
            interned_data,
            ..TracePacket::default()
        })
    }

    fn annotation(&mut self, name: &str, arg: &Arg<'_>, news: &mut InternedData) -> DebugAnnotation {
        let name_iid = self.arg_names.number(name, &mut news.debug_annotation_names);
        let mut annotation = DebugAnnotation {
            name_iid,
            name: name_iid.is_none().then(|| name.to_string()),
            ..DebugAnnotation::default()
        };
        match arg {
            Arg::Integer(number) => annotation.int_value = Some(*number),
            Arg::Real(number) => annotation.double_value = Some(*number),
            Arg::Hex(number) => annotation.pointer_value = Some(*number),
            Arg::Text(text) => {
                if text.len() <= MAX_INTERNED_LEN {
                    annotation.string_value_iid =
                        self.arg_texts.number(text, &mut news.debug_annotation_string_values);
                }
                if annotation.string_value_iid.is_none() {
                    annotation.string_value = Some(text.to_string());
                }
            }
        }
        annotation
    }

    fn call_stack(
        &mut self,
        stack_id: Option<i64>,
        news: &mut InternedData,
    ) -> Result<Option<u64>, ExportError> {
        let Some(stack_id) = stack_id else { return Ok(None) };
        if let Some(known) = self.call_stacks.known(stack_id) {
            return Ok(known);
        }
        let frames = self.stacks.frames(self.source, stack_id)?;
        Ok(self.call_stacks.add(stack_id, &frames, news))
    }
}

impl Sink for Perfetto<'_> {
    fn track(&mut self, track: &Track) -> Result<(), ExportError> {
        // Numbers above those of any kernel are of processes that a merge gave new ones.
        let pid = track.pid.map(|pid| pid as i32);
        let mut descriptor =
            TrackDescriptor { uuid: Some(track.id), parent_uuid: track.parent, ..TrackDescriptor::default() };
        match &track.kind {
            Kind::Process { cmdline } => {
                descriptor.process = Some(ProcessDescriptor {
                    pid,
                    cmdline: cmdline.split(' ').filter(|word| !word.is_empty()).map(String::from).collect(),
                    process_name: Some(track.name.clone()),
                });
            }
            Kind::Thread(tid) => {
                descriptor.thread = Some(ThreadDescriptor {
                    pid,
                    tid: Some((*tid).into()),
                    thread_name: Some(track.name.clone()),
                });
            }
            Kind::Plain => descriptor.name = Some(track.name.clone()),
            Kind::Counter { unit } => {
                descriptor.name = Some(track.name.clone());
                let bytes = *unit == "bytes";
                descriptor.counter = Some(CounterDescriptor {
                    unit: bytes.then_some(UNIT_SIZE_BYTES),
                    unit_name: (!bytes && !unit.is_empty()).then(|| (*unit).to_string()),
                });
            }
        }
        self.packet(&TracePacket {
            trusted_packet_sequence_id: Some(SEQUENCE),
            sequence_flags: Some(NEEDS_STATE),
            track_descriptor: Some(descriptor),
            ..TracePacket::default()
        })
    }

    /// Begin and end are written together: viewers sort by time, and keep the order of what has the same.
    fn slice(&mut self, slice: &Slice<'_>) -> Result<(), ExportError> {
        let mut news = InternedData::default();
        let name_iid = self.names.number(slice.name, &mut news.event_names);
        let mut debug_annotations = Vec::with_capacity(slice.args.len());
        for (name, arg) in slice.args {
            debug_annotations.push(self.annotation(name, arg, &mut news));
        }
        let event = TrackEvent {
            category_iids: self
                .categories
                .number(slice.category, &mut news.event_categories)
                .into_iter()
                .collect(),
            debug_annotations,
            r#type: Some(if slice.end_ns.is_some() { SLICE_BEGIN } else { INSTANT }),
            name_iid,
            name: name_iid.is_none().then(|| slice.name.to_string()),
            track_uuid: Some(slice.track),
            flow_ids: slice.flow_out.into_iter().collect(),
            terminating_flow_ids: slice.flow_in.into_iter().collect(),
            callstack_iid: self.call_stack(slice.stack_id, &mut news)?,
            ..TrackEvent::default()
        };
        self.event(slice.start_ns, event, news)?;
        let Some(end_ns) = slice.end_ns else { return Ok(()) };
        let end =
            TrackEvent { r#type: Some(SLICE_END), track_uuid: Some(slice.track), ..TrackEvent::default() };
        self.event(end_ns, end, InternedData::default())
    }

    fn counter(&mut self, track: &Track, time_ns: u64, value: f64) -> Result<(), ExportError> {
        let whole = value.fract() == 0.0 && value.abs() < 9e15;
        let event = TrackEvent {
            r#type: Some(COUNTER),
            track_uuid: Some(track.id),
            counter_value: whole.then_some(value as i64),
            double_counter_value: (!whole).then_some(value),
            ..TrackEvent::default()
        };
        self.event(time_ns, event, InternedData::default())
    }
}
