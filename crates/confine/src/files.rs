//! Files that a thread may reach, by Landlock.

use crate::Purpose;
use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus,
};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Whether the kernel keeps the thread to it; one that has no Landlock does not, and those that go anywhere are not asked.
pub(crate) fn restrict(purpose: &Purpose) -> bool {
    let all = AccessFs::from_all(ABI::V3);
    let folder = match purpose {
        Purpose::Parse | Purpose::Compute | Purpose::Talk | Purpose::Write => None,
        Purpose::Read(folder) => Some((folder, AccessFs::ReadFile | AccessFs::ReadDir)),
        Purpose::Open(folder) | Purpose::Store(folder) => Some((folder, all)),
        Purpose::Serve | Purpose::Spool | Purpose::Look | Purpose::Drive | Purpose::Start => return false,
    };
    let restricted = || {
        let rules =
            Ruleset::default().set_compatibility(CompatLevel::BestEffort).handle_access(all)?.create()?;
        let rules = match folder {
            Some((folder, access)) => rules.add_rule(PathBeneath::new(PathFd::new(folder)?, access))?,
            None => rules,
        };
        Ok::<_, Box<dyn std::error::Error>>(rules.restrict_self()?)
    };
    restricted().is_ok_and(|status| status.ruleset != RulesetStatus::NotEnforced)
}

pub(crate) fn is_own(folder: &Path) -> bool {
    std::fs::metadata(folder).is_ok_and(|metadata| metadata.uid() == rustix::process::geteuid().as_raw())
}
