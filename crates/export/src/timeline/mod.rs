//! A trace as tracks, slices, counters and arrows: what every timeline viewer shows, whatever its format. Each row of
//! the `events` view becomes one slice or instant whose category is its layer; what is added has categories of its own.

mod calls;
mod counters;
mod extras;
mod flows;
mod lanes;
mod rows;
mod slice;
mod tracks;
mod walk;

pub(crate) use slice::{Arg, Kind, Sink, Slice, Track};
pub(crate) use walk::walk;
