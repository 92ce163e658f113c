//! Fuzz targets for everything that reads what others wrote. A target is a row of [`TARGETS`] and a file in `targets/`; its
//! seeds are in `corpus/NAME/`. A target fails by panicking, by taking longer than [`limits::SLOWEST`], or by holding more memory
//! than [`limits::MAX_MEMORY`].

pub mod corpus;
#[cfg(feature = "libfuzzer")]
pub mod guided;
pub mod limits;
mod memory;
pub mod mutate;
mod random;
mod scratch;
pub mod seeds;
mod targets;

pub use random::Random;
pub use targets::fleet_sql::WORKER;

/// A parser and what it is given.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The folder of its corpus and its word on the command line.
    pub name: &'static str,
    pub about: &'static str,
    pub run: fn(&[u8]),
    /// What of its formats chance does not find.
    pub words: &'static [&'static str],
    /// Mutations of the bounded run in `make test`.
    pub runs: u32,
    /// The largest input.
    pub most_bytes: usize,
}

/// Every target there is.
pub static TARGETS: &[Target] = &[
    targets::ring_records::TARGET,
    targets::elf_symbols::TARGET,
    targets::library_elf::TARGET,
    targets::symbol_elf::TARGET,
    targets::unwind_tables::TARGET,
    targets::debug_lines::TARGET,
    targets::python_elf::TARGET,
    targets::python_memory::TARGET,
    targets::proc_texts::TARGET,
    targets::annotation_lines::TARGET,
    targets::metric_pages::TARGET,
    targets::trace_files::TARGET,
    targets::trace_stream::TARGET,
    targets::trace_sql::TARGET,
    targets::otlp::TARGET,
    targets::journal::TARGET,
    targets::fleet_sql::TARGET,
];

/// The target of a name.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

#[global_allocator]
static MEMORY: memory::Counting = memory::Counting;
