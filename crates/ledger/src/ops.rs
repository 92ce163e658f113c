//! The run's operations, by number: what the ledger needs to know of each.

use crate::collectives::event_name;
use gpuwhy_model::{Family, Layer, OpId, OpInfo, Role};

#[derive(Debug, Clone)]
pub(crate) struct Op {
    pub(crate) role: Role,
    pub(crate) family: Family,
    /// Of functions of the collective library: as `ALL_REDUCE`.
    pub(crate) event: String,
}

#[derive(Debug)]
pub(crate) struct Ops {
    by_number: Vec<Option<Op>>,
    unknown: Op,
}

impl Ops {
    pub(crate) fn new(infos: &[OpInfo]) -> Self {
        let most = infos.iter().map(|info| usize::from(info.id.0) + 1).max().unwrap_or(0);
        let mut by_number = vec![None; most];
        for info in infos {
            let event = if info.layer == Layer::Nccl { event_name(&info.name) } else { String::new() };
            by_number[usize::from(info.id.0)] = Some(Op { role: info.role, family: info.family, event });
        }
        let unknown = Op { role: Role::None, family: Family::Other, event: String::new() };
        Ops { by_number, unknown }
    }

    pub(crate) fn get(&self, id: OpId) -> &Op {
        self.by_number.get(usize::from(id.0)).and_then(Option::as_ref).unwrap_or(&self.unknown)
    }
}
