//! Other processes as the kernel shows them: what they have mapped, and the files below their root. What processes
//! wrote is distrusted: no link leads out of a root, and nothing is opened that may wait or act.

mod inside;
mod maps;
mod memory;
mod target_file;
mod trust;

pub use inside::{Inside, regular};
pub use maps::{Mapping, Maps};
pub use memory::ProcessMemory;
pub use target_file::{FileId, MappedFile, TargetFile};
pub use trust::{Identity, distrust, distrusted, is_trusted, look};
