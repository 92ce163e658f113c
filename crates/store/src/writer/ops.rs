//! The operations of a run, numbered as the file numbers them: several runs append to one file.

use gpuwhy_model::{OpId, OpInfo, Role};
use rusqlite::{Connection, OptionalExtension, params};

#[derive(Debug)]
struct Op {
    file_id: i64,
    name: String,
}

/// By the run's own number.
#[derive(Debug, Default)]
pub(super) struct Ops(Vec<Option<Op>>);

impl Ops {
    pub(super) fn load(db: &Connection, infos: &[OpInfo]) -> rusqlite::Result<Ops> {
        let mut ops = Ops::default();
        for info in infos {
            let file_id = number(db, &info.name)?;
            // What is known of an operation may be more than an earlier version knew.
            db.prepare_cached(
                "UPDATE ops SET layer = ?, family = ?, waits_for_gpu = ?, role = ? WHERE op_id = ?",
            )?
            .execute(params![
                info.layer.name(),
                info.family.name(),
                info.waits_for_gpu,
                role_name(info.role),
                file_id
            ])?;
            ops.set(info.id, Op { file_id, name: info.name.clone() });
        }
        Ok(ops)
    }

    pub(super) fn file_id(&mut self, db: &Connection, id: OpId) -> rusqlite::Result<i64> {
        match self.0.get(usize::from(id.0)) {
            Some(Some(op)) => Ok(op.file_id),
            _ => Ok(self.unnamed(db, id)?.file_id),
        }
    }

    pub(super) fn name(&mut self, db: &Connection, id: OpId) -> rusqlite::Result<&str> {
        if !matches!(self.0.get(usize::from(id.0)), Some(Some(_))) {
            self.unnamed(db, id)?;
        }
        Ok(self.0.get(usize::from(id.0)).and_then(Option::as_ref).map_or("", |op| op.name.as_str()))
    }

    /// The same where there may be none.
    pub(super) fn name_of(&mut self, db: &Connection, id: OpId) -> rusqlite::Result<Option<&str>> {
        match id {
            OpId::NONE => Ok(None),
            id => self.name(db, id).map(Some),
        }
    }

    /// An operation nobody named: its calls are kept under its number rather than lost.
    fn unnamed(&mut self, db: &Connection, id: OpId) -> rusqlite::Result<&Op> {
        let name = format!("op_{}", id.0);
        let file_id = number(db, &name)?;
        Ok(self.set(id, Op { file_id, name }))
    }

    fn set(&mut self, id: OpId, op: Op) -> &Op {
        let at = usize::from(id.0);
        if self.0.len() <= at {
            self.0.resize_with(at + 1, || None);
        }
        self.0[at].insert(op)
    }
}

/// A new one is a plain call of CUDA.
fn number(db: &Connection, name: &str) -> rusqlite::Result<i64> {
    let known = db.query_row("SELECT op_id FROM ops WHERE op = ?", [name], |row| row.get(0)).optional()?;
    if let Some(id) = known {
        return Ok(id);
    }
    db.execute("INSERT INTO ops (op, layer, family, waits_for_gpu) VALUES (?, 'cuda', 'other', 0)", [name])?;
    Ok(db.last_insert_rowid())
}

/// As the model writes it.
fn role_name(role: Role) -> Option<String> {
    let name = serde_json::to_value(role).ok()?;
    name.as_str().filter(|_| role != Role::None).map(String::from)
}
