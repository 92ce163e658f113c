//! Opening a BPF object: constants set by name, maps of the same name shared between objects, which may be loaded side by
//! side.

use super::error::LoadError;
use libbpf_rs::{AsRawLibbpf, MapCore, MapHandle, Object, ObjectBuilder, OpenObject};
use object::{Object as _, ObjectSection, ObjectSymbol};
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Maps by name: the first object that declares one makes it, the others use it.
#[derive(Debug, Default)]
pub(crate) struct SharedMaps {
    common: Arc<Common>,
    /// Of loaded objects.
    loaded: HashMap<String, MapHandle>,
}

/// What objects that are loaded side by side have in common.
#[derive(Debug, Default)]
struct Common {
    making: Mutex<Making>,
    made: Condvar,
}

/// Maps of objects that are loaded or about to be.
#[derive(Debug, Default)]
struct Making {
    made: HashMap<String, OwnedFd>,
    /// Somebody is making these.
    claimed: HashSet<String>,
}

impl SharedMaps {
    /// The same maps, for a thread that loads another object.
    pub(crate) fn for_loading(&self) -> SharedMaps {
        SharedMaps { common: Arc::clone(&self.common), loaded: HashMap::new() }
    }

    pub(crate) fn get(&self, name: &str) -> Result<&MapHandle, LoadError> {
        self.loaded.get(name).ok_or_else(|| LoadError::Internal(format!("no object declares the map {name}")))
    }

    /// From now on the object's maps can be read and written.
    pub(crate) fn take_over(&mut self, name: &str, object: &Object) -> Result<(), LoadError> {
        for map in object.maps() {
            let key = map.name().to_string_lossy().into_owned();
            if is_shared(&key) && !self.loaded.contains_key(&key) {
                let handle = MapHandle::try_from(&map).map_err(|error| LoadError::load(name, &error))?;
                self.loaded.insert(key, handle);
            }
        }
        Ok(())
    }

    /// Which of an object's maps it has to make itself, once nobody else is making any of them: so two objects never make
    /// the same map, and none waits for one that waits for it.
    fn claim(&self, names: &[String]) -> Claim<'_> {
        let making = self.common.making.lock().unwrap_or_else(PoisonError::into_inner);
        let is_busy = |making: &mut Making| names.iter().any(|name| making.claimed.contains(name));
        let mut making = self.common.made.wait_while(making, is_busy).unwrap_or_else(PoisonError::into_inner);
        let own: Vec<String> =
            names.iter().filter(|name| !making.made.contains_key(*name)).cloned().collect();
        making.claimed.extend(own.iter().cloned());
        Claim { maps: self, names: own }
    }
}

/// Maps that one object makes while this lives.
struct Claim<'a> {
    maps: &'a SharedMaps,
    names: Vec<String>,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut making = self.maps.common.making.lock().unwrap_or_else(PoisonError::into_inner);
        making.claimed.retain(|name| !self.names.contains(name));
        self.maps.common.made.notify_all();
    }
}

/// .rodata, .bss and the like are each object's own.
fn is_shared(map: &str) -> bool {
    !map.contains('.')
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
    pub(crate) fn load(mut self, shared: &SharedMaps) -> Result<Object, LoadError> {
        let names = self.object.maps().map(|map| map.name().to_string_lossy().into_owned());
        let claim = shared.claim(&names.filter(|name| is_shared(name)).collect::<Vec<_>>());
        self.make_maps(shared, &claim)?;
        // The rest is the verifier's work for the most part, and has nothing in common with other objects.
        drop(claim);
        self.object.load().map_err(|error| LoadError::load(self.name, &error))
    }

    fn make_maps(&mut self, shared: &SharedMaps, claim: &Claim<'_>) -> Result<(), LoadError> {
        let failed = |error: i32| LoadError::load(self.name, &libbpf_rs::Error::from_raw_os_error(error));
        for mut map in self.object.maps_mut() {
            let making = shared.common.making.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(made) = making.made.get(&*map.name().to_string_lossy()) {
                map.reuse_fd(made.as_fd()).map_err(|error| LoadError::open(self.name, &error))?;
            }
        }
        // SAFETY: the object is open and ours alone; a failure leaves it as one that can only be closed.
        let result = unsafe { libbpf_sys::bpf_object__prepare(self.object.as_libbpf_object().as_ptr()) };
        if result < 0 {
            return Err(failed(-result));
        }
        for map in self.object.maps() {
            let name = map.name().to_string_lossy().into_owned();
            if claim.names.contains(&name) {
                // SAFETY: the map is made by now, and its descriptor stays open as long as the object.
                let fd = unsafe {
                    BorrowedFd::borrow_raw(libbpf_sys::bpf_map__fd(map.as_libbpf_object().as_ptr()))
                };
                let own = fd.try_clone_to_owned();
                let own = own.map_err(|error| failed(error.raw_os_error().unwrap_or(libc::EMFILE)))?;
                shared.common.making.lock().unwrap_or_else(PoisonError::into_inner).made.insert(name, own);
            }
        }
        Ok(())
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
        // A full disk is no reason to end the trace.
        let print = |_, text: String| drop(std::io::stderr().write_all(text.as_bytes()));
        libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Info, print)));
    } else {
        libbpf_rs::set_print(None);
    }
}
