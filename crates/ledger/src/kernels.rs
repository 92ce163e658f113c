//! The kernels of one process: what each function is called, and how often it was launched.

use crate::counter::Counter;
use crate::names::{Name, Names};
use crate::table::Table;
use gpuwhy_model::{Call, Facts, Kernel, LaunchCount};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// Functions remembered of a process; PyTorch has some 20,000 and uses hundreds.
const MAX_FUNCTIONS: usize = 32_768;
const MAX_MODULES: usize = 8_192;
/// Kernels whose functions came before their names.
const MAX_WAITING: usize = 1_024;
/// Functions of one such kernel: there is one for each context.
const MAX_WAITING_FUNCTIONS: usize = 64;

#[derive(Debug)]
pub(crate) struct Kernels {
    pid: u32,
    functions: Table<u64, Function>,
    /// Files of modules, by handle.
    modules: Table<u64, Arc<str>>,
    /// Functions of kernels whose name has not come yet, by kernel.
    waiting: Table<u64, Vec<u64>>,
    changed: BTreeSet<u64>,
    /// Launched without a name, and not asked for yet.
    unnamed: VecDeque<u64>,
}

#[derive(Debug, Default)]
struct Function {
    name: Option<Name>,
    module: Arc<str>,
    first_ns: u64,
    launches: u64,
    launch_ns: u64,
    last_ns: u64,
    counter: Counter,
    launched: bool,
}

impl Kernels {
    pub(crate) fn new(pid: u32) -> Self {
        Kernels {
            pid,
            functions: Table::new(MAX_FUNCTIONS),
            modules: Table::new(MAX_MODULES),
            waiting: Table::new(MAX_WAITING),
            changed: BTreeSet::new(),
            unnamed: VecDeque::new(),
        }
    }

    pub(crate) fn knows(&self, handle: u64) -> bool {
        self.functions.contains(&handle)
    }

    /// The name for people; empty where nobody has told.
    pub(crate) fn name_of(&self, handle: u64) -> &str {
        self.functions.get(&handle).and_then(|function| function.name.as_ref()).map_or("", |name| &name.name)
    }

    pub(crate) fn known_names(&self) -> impl Iterator<Item = (u64, &str)> {
        self.functions.iter().filter_map(|(handle, function)| Some((*handle, &*function.name()?.mangled)))
    }

    /// Launched functions without a name, each once.
    pub(crate) fn take_unnamed(&mut self) -> Vec<u64> {
        let functions = &self.functions;
        let nameless = |handle: &u64| functions.get(handle).is_some_and(|function| function.name.is_none());
        self.unnamed.drain(..).filter(nameless).collect()
    }

    /// A module whose handle had another file before has that no more.
    pub(crate) fn module_loaded(&mut self, call: &Call) {
        self.modules.remove(&call.handle);
        if let Some(file) = &call.name {
            self.modules.insert(call.handle, file.as_str().into());
        }
    }

    /// A call told the name.
    pub(crate) fn named(&mut self, call: &Call, names: &mut Names) {
        let Some(mangled) = call.name.as_deref().filter(|name| !name.is_empty()) else { return };
        if call.handle == 0 {
            return;
        }
        let module = self.modules.get(&call.aux).cloned().unwrap_or_default();
        self.set_name(call.handle, &names.of(mangled), &module, call.start_ns);
    }

    /// Somebody else found the name; what calls told is the truth where they did.
    pub(crate) fn named_elsewhere(&mut self, handle: u64, name: &Name, now_ns: u64) {
        if self.functions.get(&handle).and_then(Function::name).is_none() {
            self.set_name(handle, name, &Arc::default(), now_ns);
        }
    }

    /// A function of a kernel is called as the kernel is.
    pub(crate) fn function_of_kernel(&mut self, call: &Call) {
        let kernel = self.functions.get(&call.aux);
        match kernel.and_then(|kernel| Some((kernel.name.clone()?, kernel.module.clone()))) {
            Some((name, module)) => self.set_name(call.handle, &name, &module, call.start_ns),
            None => {
                let waiting = self.waiting.get_or_insert_with(call.aux, Vec::new);
                if waiting.len() < MAX_WAITING_FUNCTIONS {
                    waiting.push(call.handle);
                }
            }
        }
    }

    /// A function is used by a graph: it has a row even if it is never launched by itself.
    pub(crate) fn used(&mut self, handle: u64, at_ns: u64) {
        let function = self.function(handle, at_ns);
        if function.launched {
            return;
        }
        function.launched = true;
        if function.name.is_none() {
            if self.unnamed.len() == MAX_FUNCTIONS {
                self.unnamed.pop_front();
            }
            self.unnamed.push_back(handle);
        }
    }

    pub(crate) fn launched(&mut self, count: &LaunchCount) {
        self.used(count.handle, count.time_ns);
        let function = self.function(count.handle, count.time_ns);
        let rise = function.counter.rise_to(Counter { count: count.count, sum_ns: count.sum_ns });
        function.launches = function.launches.saturating_add(rise.count);
        function.launch_ns = function.launch_ns.saturating_add(rise.sum_ns);
        if rise != Counter::default() {
            function.last_ns = function.last_ns.max(count.time_ns);
            self.changed.insert(count.handle);
        }
    }

    pub(crate) fn emit(&mut self, facts: &mut Facts) {
        for handle in std::mem::take(&mut self.changed) {
            let Some(function) = self.functions.get(&handle) else { continue };
            facts.kernels.push(Kernel {
                pid: self.pid,
                handle,
                name: function.name().map(|name| name.name.to_string()).unwrap_or_default(),
                mangled: function.name().map(|name| name.mangled.to_string()).unwrap_or_default(),
                module: function.module.to_string(),
                first_ns: function.first_ns,
                launches: function.launches,
                launch_ns: function.launch_ns,
                last_ns: function.last_ns,
            });
        }
    }

    /// Names a function, and those that waited for its name.
    fn set_name(&mut self, handle: u64, name: &Name, module: &Arc<str>, at_ns: u64) {
        let mut handles = vec![handle];
        while let Some(handle) = handles.pop() {
            let function = self.function(handle, at_ns);
            if function.name.as_ref() != Some(name) || function.module != *module {
                function.name = Some(name.clone());
                function.module = module.clone();
                self.changed.insert(handle);
            }
            handles.extend(self.waiting.remove(&handle).unwrap_or_default());
        }
    }

    fn function(&mut self, handle: u64, at_ns: u64) -> &mut Function {
        if !self.functions.contains(&handle) {
            self.changed.insert(handle);
        }
        self.functions.get_or_insert_with(handle, || Function { first_ns: at_ns, ..Function::default() })
    }
}

impl Function {
    fn name(&self) -> Option<&Name> {
        self.name.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{PID, handle};

    fn named(handle_: u64, aux: u64, name: &str, end_ns: u64) -> Call {
        Call { aux, name: Some(name.into()), ..handle("cuModuleGetFunction", end_ns, handle_) }
    }

    fn count(handle: u64, count: u64, sum_ns: u64) -> LaunchCount {
        LaunchCount { time_ns: 1_000, pid: PID, handle, graph: false, count, sum_ns }
    }

    fn reported(kernels: &mut Kernels) -> Vec<Kernel> {
        let mut facts = Facts::default();
        kernels.emit(&mut facts);
        facts.kernels
    }

    #[test]
    fn a_name_is_told_once_and_launches_when_they_rose() {
        let (mut kernels, mut names) = (Kernels::new(PID), Names::new());
        kernels.module_loaded(&Call {
            name: Some("/tmp/a.cubin".into()),
            ..handle("cuModuleLoadData", 5, 0x40)
        });
        kernels.named(&named(0x50, 0x40, "_Z3addPf", 10), &mut names);
        kernels.launched(&count(0x50, 3, 300));
        let row = Kernel {
            pid: PID,
            handle: 0x50,
            name: "add(float*)".into(),
            mangled: "_Z3addPf".into(),
            module: "/tmp/a.cubin".into(),
            first_ns: 9,
            launches: 3,
            launch_ns: 300,
            last_ns: 1_000,
        };
        assert_eq!(reported(&mut kernels), [row]);
        kernels.launched(&LaunchCount { time_ns: 2_000, ..count(0x50, 3, 300) });
        kernels.named(&named(0x50, 0x40, "_Z3addPf", 20), &mut names);
        assert_eq!(reported(&mut kernels), []);
        kernels.launched(&LaunchCount { time_ns: 3_000, ..count(0x50, 5, 400) });
        let risen = reported(&mut kernels);
        assert_eq!((risen[0].launches, risen[0].last_ns), (5, 3_000));
        // The kernel gave its place to it anew.
        kernels.launched(&count(0x50, 1, 10));
        assert_eq!(reported(&mut kernels)[0].launches, 6);
        assert!(kernels.take_unnamed().is_empty());
    }

    #[test]
    fn a_function_has_its_kernels_name_in_either_order() {
        let (mut kernels, mut names) = (Kernels::new(PID), Names::new());
        let of_kernel = |function, kernel| Call { aux: kernel, ..handle("cuKernelGetFunction", 9, function) };
        kernels.function_of_kernel(&of_kernel(0x51, 0x61));
        assert_eq!(reported(&mut kernels), []);
        kernels.named(&named(0x61, 0, "late", 10), &mut names);
        kernels.named(&named(0x62, 0, "early", 10), &mut names);
        kernels.function_of_kernel(&of_kernel(0x52, 0x62));
        let known: BTreeSet<_> = kernels.known_names().collect();
        assert_eq!(known, BTreeSet::from([(0x51, "late"), (0x61, "late"), (0x52, "early"), (0x62, "early")]));
        assert_eq!(reported(&mut kernels).len(), 4);
    }

    #[test]
    fn a_function_without_a_name_is_asked_for_once() {
        let (mut kernels, mut names) = (Kernels::new(PID), Names::new());
        kernels.launched(&count(0x50, 1, 1));
        kernels.launched(&count(0x51, 1, 1));
        assert_eq!(reported(&mut kernels)[0].name, "");
        kernels.named(&named(0x51, 0, "told", 10), &mut names);
        assert_eq!(kernels.take_unnamed(), [0x50]);
        kernels.launched(&count(0x50, 2, 1));
        assert!(kernels.take_unnamed().is_empty());
        kernels.named_elsewhere(0x50, &names.of("_Z1fv"), 20);
        kernels.named_elsewhere(0x51, &names.of("other"), 20);
        let rows = reported(&mut kernels);
        assert_eq!((rows[0].name.as_str(), rows[1].name.as_str()), ("f()", "told"));
    }

    #[test]
    fn a_module_handle_may_be_used_again() {
        let (mut kernels, mut names) = (Kernels::new(PID), Names::new());
        kernels.module_loaded(&Call { name: Some("a".into()), ..handle("cuModuleLoadData", 5, 0x40) });
        kernels.module_loaded(&handle("cuModuleLoadData", 6, 0x40));
        kernels.named(&named(0x50, 0x40, "k", 10), &mut names);
        assert_eq!(reported(&mut kernels)[0].module, "");
    }
}
