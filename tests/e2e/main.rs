//! The real binary, end to end, under real eBPF where it is allowed.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may only fail")]
#![allow(clippy::needless_pass_by_value, reason = "what a test has finished with is finished with")]

mod cgroup;
mod frames;
mod ftrace;
mod readers;
mod refusal;
mod support;

mod abi;
mod assistant;
mod bad_input;
mod blame;
mod browser;
mod chosen;
mod collectives;
mod connections;
mod counting;
mod cpu;
mod discovery;
mod documented;
mod explain;
mod export;
mod follow;
mod governor;
mod gpu;
mod graphs;
mod late;
mod libraries;
mod lifecycle;
mod limits;
mod marks;
mod memory;
mod merge;
mod metrics;
mod native;
mod network;
mod nodes;
mod owners;
mod privileges;
mod programs;
mod prometheus;
mod python;
mod queries;
mod readme;
mod reasons;
mod report;
mod scale;
mod scenarios;
mod secrets;
mod sql;
mod strangers;
mod surfaces;
mod terminal;
mod victim;
