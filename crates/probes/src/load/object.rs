//! Opening a BPF object: constants set by name, maps of the same name shared between objects.

use super::error::LoadError;
use libbpf_rs::{MapCore, MapHandle, Object, ObjectBuilder, OpenObject};
use object::{Object as _, ObjectSection, ObjectSymbol};
use std::collections::HashMap;
use std::ffi::OsStr;

/// Maps by name: the first object that declares one makes it, the others use it.
#[derive(Debug, Default)]
pub(crate) struct SharedMaps(HashMap<String, MapHandle>);

impl SharedMaps {
    pub(crate) fn get(&self, name: &str) -> Result<&MapHandle, LoadError> {
        self.0.get(name).ok_or_else(|| LoadError::Internal(format!("no object declares the map {name}")))
    }
}

/// An object between opening and loading.
pub(crate) struct Opened {
    name: &'static str,
    bytes: &'static [u8],
    object: OpenObject,
}

impl Opened {
    pub(crate) fn open(name: &'static str, bytes: &'static [u8]) -> Result<Self, LoadError> {
        silence_libbpf();
        let object =
            ObjectBuilder::default().open_memory(bytes).map_err(|error| LoadError::open(name, &error))?;
        Ok(Opened { name, bytes, object })
    }

    /// Loads only the programs that `wanted` says.
    pub(crate) fn keep_programs(&mut self, wanted: impl Fn(&str) -> bool) {
        for mut program in self.object.progs_mut() {
            let keep = wanted(&program.name().to_string_lossy());
            program.set_autoload(keep);
        }
    }

    /// Leaves out programs on typed tracepoints that this kernel does not have.
    pub(crate) fn leave_out_absent(&mut self, has: impl Fn(&str) -> bool) {
        for mut program in self.object.progs_mut() {
            let section = program.section().to_string_lossy().into_owned();
            if section.strip_prefix("tp_btf/").is_some_and(|name| !has(name)) {
                program.set_autoload(false);
            }
        }
    }

    /// Sets a constant of the program, if it has one of that name.
    pub(crate) fn set_constant(&mut self, name: &str, value: &[u8]) -> Result<(), LoadError> {
        let Some((offset, size)) = variable(self.bytes, ".rodata", name) else { return Ok(()) };
        if size != value.len() {
            return Err(LoadError::Internal(format!("{name} is {size} bytes, not {}", value.len())));
        }
        for mut map in self.object.maps_mut() {
            if !ends_with(map.name(), ".rodata") {
                continue;
            }
            if let Some(target) = map.initial_value_mut().and_then(|data| data.get_mut(offset..offset + size))
            {
                target.copy_from_slice(value);
            }
        }
        Ok(())
    }

    /// Sets the size of a map, if it declares one of that name.
    pub(crate) fn set_max_entries(&mut self, name: &str, entries: u32) -> Result<(), LoadError> {
        match self.object.maps_mut().find(|map| map.name() == name) {
            Some(mut map) => map.set_max_entries(entries).map_err(|error| LoadError::open(self.name, &error)),
            None => Ok(()),
        }
    }

    /// Loads it, with the maps others already made.
    pub(crate) fn load(mut self, shared: &mut SharedMaps) -> Result<Object, LoadError> {
        for mut map in self.object.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            if let Some(existing) = shared.0.get(&name) {
                use std::os::fd::AsFd;
                map.reuse_fd(existing.as_fd()).map_err(|error| LoadError::open(self.name, &error))?;
            }
        }
        let object = self.object.load().map_err(|error| LoadError::load(self.name, &error))?;
        for map in object.maps() {
            let name = map.name().to_string_lossy().into_owned();
            // .rodata, .bss and the like are each object's own.
            if !name.contains('.') && !shared.0.contains_key(&name) {
                let handle = MapHandle::try_from(&map).map_err(|error| LoadError::load(self.name, &error))?;
                shared.0.insert(name, handle);
            }
        }
        Ok(object)
    }
}

pub(crate) fn has_variable(bytes: &[u8], name: &str) -> bool {
    variable(bytes, ".data", name).is_some()
}

/// Changes a variable of a loaded object's .data.
pub(crate) fn set_variable(bytes: &[u8], object: &Object, name: &str, value: &[u8]) -> Result<(), LoadError> {
    let Some((offset, size)) = variable(bytes, ".data", name) else {
        return Err(LoadError::Internal(format!("no variable {name}")));
    };
    let map = object
        .maps()
        .find(|map| ends_with(map.name(), ".data"))
        .ok_or_else(|| LoadError::Internal("the object has no .data".into()))?;
    let key = 0u32.to_ne_bytes();
    let failed = |error: libbpf_rs::Error| LoadError::Internal(format!("{name} cannot be set: {error}"));
    let mut data = map.lookup(&key, libbpf_rs::MapFlags::ANY).map_err(failed)?.unwrap_or_default();
    match data.get_mut(offset..offset + size) {
        Some(target) if size == value.len() => target.copy_from_slice(value),
        _ => return Err(LoadError::Internal(format!("{name} is {size} bytes, not {}", value.len()))),
    }
    map.update(&key, &data, libbpf_rs::MapFlags::ANY).map_err(failed)
}

/// Offset and size of a variable within its section, from the object's own symbol table.
fn variable(bytes: &[u8], section: &str, name: &str) -> Option<(usize, usize)> {
    let file = object::File::parse(bytes).ok()?;
    let index = file.section_by_name(section)?.index();
    let symbol =
        file.symbols().find(|symbol| symbol.section_index() == Some(index) && symbol.name() == Ok(name))?;
    Some((symbol.address() as usize, symbol.size() as usize))
}

fn ends_with(name: &OsStr, suffix: &str) -> bool {
    name.to_string_lossy().ends_with(suffix)
}

/// libbpf's own words go nowhere, as errors come back as values; a developer asks for them (and the verifier's) with
/// GPUWHY_BPF_LOG=1.
fn silence_libbpf() {
    if std::env::var_os("GPUWHY_BPF_LOG").is_some() {
        libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Info, |_, text| eprint!("{text}"))));
    } else {
        libbpf_rs::set_print(None);
    }
}
