//! Exports of traces whose truth is known, event by event.

#![allow(clippy::unwrap_used)]

mod made;

mod profiles;
mod stopping;
mod timelines;
