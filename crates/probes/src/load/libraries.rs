//! The library files the engine is attached to.

use super::attach::{self, LibraryFile};
use super::engine::Loaded;
use super::loading::{load_probe, refused};
use super::rules::{self, Rule};
use super::{Engine, LoadError};
use crate::layout::CommunicatorLayout;
use crate::probe::Library;
use gpuwhy_model::{Layer, LibraryInfo, ProbeStatus};
use gpuwhy_proc::FileId;
use std::thread::JoinHandle;
use std::time::Instant;

const LOADER: &str = "gpuwhy-load";

impl Engine {
    /// Attaches a library file unless it already is; says what came of it.
    pub fn attach_library(&mut self, file: &LibraryFile) -> Vec<ProbeStatus> {
        let wanted = self.rules.iter().any(|rule| rule.function.library == file.library);
        if !wanted || self.is_attached(file.file.id()) {
            return Vec::new();
        }
        let mut fresh = self.load_for(file);
        let now = self.now_ns();
        let number = self.libraries.len() as u16 + 1;
        for loaded in &self.loaded {
            let rules: Vec<Rule> = self
                .rules
                .iter()
                .filter(|rule| rule.probe == loaded.probe.name && rule.function.library == file.library)
                .copied()
                .collect();
            if rules.is_empty() {
                continue;
            }
            let attached = attach::library(&loaded.object, &rules, file, number, self.flavour, now);
            self.groups.extend(attached.groups);
            fresh.extend(attached.statuses);
        }
        self.attached_files.insert(file.file.id(), self.now_ns());
        // What is watched in slices waits for the next one here, too.
        self.drop_detached();
        if matches!(file.library, Library::CudaDriver | Library::CudaRuntime | Library::Hip) {
            self.expect_collectives();
        }
        if fresh.iter().any(|status| status.state.works()) {
            self.libraries.push(LibraryInfo {
                number,
                kind: file.library.name().into(),
                file: file.shown_path.clone(),
            });
            self.library_files.push(Some(file.file.clone()));
        }
        self.statuses.extend(fresh.iter().cloned());
        fresh
    }

    /// Loads the probe of a library that turned up for the first time.
    fn load_for(&mut self, file: &LibraryFile) -> Vec<ProbeStatus> {
        let name = file.library.probe();
        let Some(at) = self.later.probes.iter().position(|probe| probe.name == name) else {
            return Vec::new();
        };
        let probe = self.later.probes.remove(at);
        let began = Instant::now();
        let loaded = match self.later.loading.remove(name).map(JoinHandle::join) {
            Some(Ok(loaded)) => loaded,
            _ => {
                let later = &self.later;
                load_probe(probe, &later.settings, &self.rules, self.flavour, later.shards, &self.maps)
            }
        };
        let result = loaded.and_then(|object| {
            self.maps.take_over(probe.name, &object)?;
            self.loaded.push(Loaded { probe, object, load_time: began.elapsed() });
            self.write_nccl_rules()?;
            self.set_stacks(self.stacks)
        });
        match result {
            Ok(()) => Vec::new(),
            Err(error) => vec![refused(probe, self.flavour.name(), &error.to_string())],
        }
    }

    /// Loads the probe of the collective library in the background: a program that may use one loads it late, and makes its
    /// communicator at once, so its calls cannot wait for the verifier.
    pub fn expect_collectives(&mut self) {
        let mut probes = self.later.probes.iter().copied();
        let Some(probe) = probes.find(|probe| probe.name == Library::Nccl.probe()) else { return };
        if self.later.loading.contains_key(probe.name) {
            return;
        }
        let (settings, rules, flavour) = (self.later.settings.clone(), self.rules.clone(), self.flavour);
        let (shards, maps) = (self.later.shards, self.maps.for_loading());
        let load = move || load_probe(probe, &settings, &rules, flavour, shards, &maps);
        // Where no thread can be started it is loaded when it is needed.
        if let Ok(thread) = std::thread::Builder::new().name(LOADER.into()).spawn(load) {
            self.later.loading.insert(probe.name, thread);
        }
    }

    /// Where the probe that reads them is loaded.
    pub(super) fn write_nccl_rules(&self) -> Result<(), LoadError> {
        let Ok(map) = self.maps.get("nccl_rules") else { return Ok(()) };
        for rule in self.rules.iter().filter(|rule| rule.function.layer == Layer::Nccl) {
            rules::write_nccl(map, rule)?;
        }
        Ok(())
    }

    /// The library files attached so far, by number.
    pub fn libraries(&self) -> &[LibraryInfo] {
        &self.libraries
    }

    /// Where an attached collective library keeps a communicator's ranks.
    pub fn communicator_layout(&self, library: u16) -> Option<CommunicatorLayout> {
        let file = self.library_files.get(usize::from(library).checked_sub(1)?)?.as_ref()?;
        let file = file.clone();
        gpuwhy_confine::parse(move || CommunicatorLayout::of_library(&file))?
    }

    /// Detaches a file from all processes, closes it, and says so of its functions; it may be attached again. Traps end at
    /// once, as with slices.
    pub fn detach_library(&mut self, id: FileId, reason: &str) -> Vec<ProbeStatus> {
        self.attached_files.remove(&id);
        let (gone, stay): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.groups).into_iter().partition(|group| group.file.file.id() == id);
        self.groups = stay;
        for file in &mut self.library_files {
            file.take_if(|file| file.id() == id);
        }
        // What was said of it is said, and need not be remembered.
        let is_left = |path: &str| self.groups.iter().any(|group| group.file.shown_path == path);
        let forgotten = gone.first().map(|group| group.file.shown_path.clone()).filter(|path| !is_left(path));
        self.statuses.retain(|status| Some(&status.file) != forgotten.as_ref());
        let now = self.now_ns();
        let statuses =
            gone.iter().flat_map(|group| group.refused(self.flavour.name(), now, reason)).collect();
        if !gone.is_empty() {
            std::thread::spawn(move || drop(gone));
        }
        statuses
    }

    /// Whether the file of an attached library has no name any more.
    pub fn is_deleted(&self, id: FileId) -> bool {
        self.groups.iter().any(|group| group.file.file.id() == id && group.file.file.is_deleted())
    }

    pub fn is_attached(&self, id: FileId) -> bool {
        self.attached_files.contains_key(&id)
    }

    /// When a file was attached.
    pub fn attached_ns(&self, id: FileId) -> Option<u64> {
        self.attached_files.get(&id).copied()
    }
}
