//! Projections of the schema: the statements that make it and fill it, and its documentation inside the file.

use super::{APPLICATION_ID, Column, INDEXES, Index, SCHEMA_VERSION, TABLES, Table, VIEWS, View};
use gpuwhy_model::{BUCKETS, bucket_range};
use rusqlite::{Connection, params};

impl Table {
    pub fn create_sql(&self) -> String {
        let rowid = match self.key {
            [one] if !self.clustered => Some(*one),
            _ => None,
        };
        let mut parts: Vec<String> = self
            .columns
            .iter()
            .map(|column| match rowid == Some(column.name) {
                true => format!("{} {} PRIMARY KEY", column.name, column.kind),
                false => column.declaration(),
            })
            .collect();
        if !self.key.is_empty() && rowid.is_none() {
            parts.push(format!("PRIMARY KEY ({})", self.key.join(", ")));
        }
        let tail = if self.clustered { " WITHOUT ROWID" } else { "" };
        format!("CREATE TABLE {} ({}){tail}", self.name, parts.join(", "))
    }

    /// The same in memory, for the one connection: where the file itself does not have the table.
    pub(crate) fn create_temp_sql(&self) -> String {
        self.create_sql().replacen("CREATE TABLE", "CREATE TEMP TABLE", 1)
    }

    /// An insert of so many rows at once, with `verb` such as `INSERT` or `INSERT OR IGNORE`.
    pub fn insert_sql(&self, verb: &str, rows: usize) -> String {
        let names: Vec<&str> = self.columns.iter().map(|column| column.name).collect();
        let row = format!("({})", vec!["?"; names.len()].join(","));
        format!(
            "{verb} INTO {} ({}) VALUES {}",
            self.name,
            names.join(", "),
            vec![row.as_str(); rows].join(",")
        )
    }

    /// An insert that completes the row with the same key: what is NULL in the new row keeps its old value.
    pub fn upsert_sql(&self) -> String {
        self.on_conflict(|column| format!("{column} = coalesce(excluded.{column}, {}.{column})", self.name))
    }

    /// An insert that takes the place of the row with the same key, NULLs and all. Unlike `REPLACE` it leaves
    /// indexes alone whose columns stay as they are.
    pub fn replace_sql(&self) -> String {
        self.on_conflict(|column| format!("{column} = excluded.{column}"))
    }

    /// An insert that changes the row with the same key, column by column.
    pub(crate) fn on_conflict(&self, update: impl Fn(&str) -> String) -> String {
        let updates: Vec<String> = self
            .columns
            .iter()
            .filter(|column| !self.key.contains(&column.name))
            .map(|column| update(column.name))
            .collect();
        format!(
            "{} ON CONFLICT ({}) DO UPDATE SET {}",
            self.insert_sql("INSERT", 1),
            self.key.join(", "),
            updates.join(", ")
        )
    }

    /// The index by which rows are found by time, where the key does not do it.
    pub(super) fn age_index_sql(&self) -> Option<String> {
        let age = self.age.filter(|age| self.key.first() != Some(age))?;
        Some(format!("CREATE INDEX IF NOT EXISTS {0}_{age} ON {0} ({age})", self.name))
    }
}

impl Column {
    /// As a table declares it.
    pub(super) fn declaration(&self) -> String {
        format!("{} {}{}", self.name, self.kind, if self.required { " NOT NULL" } else { "" })
    }
}

impl View {
    pub fn create_sql(&self) -> String {
        format!("CREATE VIEW {} AS {}", self.name, (self.sql)())
    }

    /// The same in memory, for the one connection.
    pub(crate) fn create_temp_sql(&self) -> String {
        self.create_sql().replacen("CREATE VIEW", "CREATE TEMP VIEW", 1)
    }
}

impl Index {
    pub fn create_sql(&self) -> String {
        format!("CREATE INDEX IF NOT EXISTS {} ON {} ({})", self.name, self.table, self.columns.join(", "))
    }
}

/// Makes the schema in an empty database, all or nothing.
pub fn create(db: &Connection) -> rusqlite::Result<()> {
    let tx = db.unchecked_transaction()?;
    tx.pragma_update(None, "application_id", APPLICATION_ID)?;
    for table in TABLES {
        tx.execute_batch(&table.create_sql())?;
    }
    fill_buckets(&tx)?;
    complete(&tx)?;
    tx.commit()
}

/// What follows from the tables: indexes, views, their documentation, and the version last.
pub(super) fn complete(db: &Connection) -> rusqlite::Result<()> {
    for index in TABLES.iter().filter_map(Table::age_index_sql).chain(INDEXES.iter().map(Index::create_sql)) {
        db.execute_batch(&index)?;
    }
    for view in VIEWS {
        db.execute_batch(&view.create_sql())?;
    }
    db.execute("DELETE FROM schema_doc", [])?;
    document(db)?;
    db.pragma_update(None, "user_version", SCHEMA_VERSION)
}

/// Fills `hist_buckets`.
pub(crate) fn fill_buckets(db: &Connection) -> rusqlite::Result<()> {
    let mut row = db.prepare("INSERT INTO hist_buckets VALUES (?, ?, ?)")?;
    for bucket in 0..BUCKETS {
        let (lower, upper) = bucket_range(bucket);
        row.execute(params![bucket as i64, lower as i64, upper as i64])?;
    }
    Ok(())
}

/// Fills `schema_doc`.
pub(crate) fn document(db: &Connection) -> rusqlite::Result<()> {
    let mut doc = db.prepare("INSERT INTO schema_doc VALUES (?, ?, ?, ?)")?;
    for (relation, column) in documented() {
        doc.execute(params![relation, column.name, column.unit, column.about])?;
    }
    Ok(())
}

pub(super) fn documented() -> impl Iterator<Item = (&'static str, &'static Column)> {
    let tables = TABLES.iter().flat_map(|table| table.columns.iter().map(|column| (table.name, column)));
    let views = VIEWS.iter().flat_map(|view| view.columns.iter().map(|column| (view.name, column)));
    tables.chain(views)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::calls::{KEPT, kept_number};
    use std::collections::BTreeSet;

    fn fresh() -> Connection {
        let db = Connection::open_in_memory().unwrap();
        create(&db).unwrap();
        db
    }

    fn names(db: &Connection, sql: &str) -> BTreeSet<(String, String)> {
        db.prepare(sql)
            .unwrap()
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap()
    }

    #[test]
    fn schema_doc_covers_exactly_the_columns_sqlite_knows() {
        let db = fresh();
        let real = names(
            &db,
            "SELECT m.name, i.name FROM sqlite_master m, pragma_table_info(m.name) i WHERE m.type IN ('table', 'view')",
        );
        let documented = names(&db, "SELECT table_name, column_name FROM schema_doc");
        assert_eq!(real.difference(&documented).collect::<Vec<_>>(), Vec::<&(String, String)>::new());
        assert_eq!(documented.difference(&real).collect::<Vec<_>>(), Vec::<&(String, String)>::new());
        let empty: i64 =
            db.query_row("SELECT count(*) FROM schema_doc WHERE about = ''", [], |row| row.get(0)).unwrap();
        assert_eq!(empty, 0);
    }

    /// The names queries in the wild use, as promised to users.
    #[test]
    fn promised_tables_and_columns_exist() {
        let promised = "
            cuda_events timestamp_ns duration_ns op pid tid cgroup_id stream bytes ret kept stack_id oncpu_ns runq_ns blocked_ns
            hip_events timestamp_ns duration_ns op pid tid cgroup_id stream bytes ret kept stack_id oncpu_ns runq_ns blocked_ns
            nccl_events timestamp_ns duration_ns op pid tid rank nranks comm_id_hash seq count bytes datatype reduce_op peer stream ret
            tcp_events timestamp_ns event pid cgroup_id saddr daddr sport dport seq
            sched_events timestamp_ns
            mem_events timestamp_ns
            io_events timestamp_ns
            net_events timestamp_ns
            rdma_events timestamp_ns
            gpu_samples timestamp_ns
            gpu_errors timestamp_ns
            call_stats window_start_ns window_ns pid op count sum_ns min_ns max_ns hist
            op_summary op count p50_us p95_us p99_us p999_us max_us
            blame window_start_ns pid tid op cause by_pid by_comm ns count
            events timestamp_ns duration_ns layer op pid tid cgroup_id rank node
            frames stack_id depth kind function file line module address
            loss start_ns end_ns probe cpu reason count
            processes pid start_ns end_ns comm cmdline cgroup_id rank world_size rank_source tenant pod namespace job_id
            threads pid
            containers container_id runtime name image pod namespace labels pod_uid qos
            stacks stack_id
            kernels name
            graphs graph
            allocations bytes
            annotations timestamp_ns duration_ns event value labels pid state clock uid
            server_samples timestamp_ns window_ns server url pid running waiting kv_cache_pct ttft_p50_us ttft_p99_us ttft_buckets itl_p99_us
            sessions host gpus version flags
            probes state cost_ns
            findings title
            schema_doc table_name column_name unit about
            driver_events timestamp_ns duration_ns op pid tid cgroup_id device cmd ret kept
            driver_stats window_start_ns window_ns pid op cgroup_id cgroup count sum_ns blocked_ns
            libraries library_id kind file
            graph_nodes pid graph created_ns node kind op handle bytes direction stack_id replaced
            graph_kernels pid exec graph kernel nodes launches
            graph_launches timestamp_ns duration_ns op pid exec graph node kind kernel
            memory_stats timestamp_ns pid gpu kind live_bytes peak_bytes live_count
            memory_failures timestamp_ns op pid bytes ret holders
            memory_holders pid gpu kind pool stack_id bytes count
            coldstart_events timestamp_ns duration_ns event op pid tid name
            gpu_time window_start_ns window_ns pid stream busy_lower_ns busy_upper_ns
            copy_stats window_start_ns window_ns pid cgroup_id direction count bytes sum_ns
            calls_in_flight pid tid start_ns op comm_id_hash rank seq seen_ns ended_ns stack_id
            gpu_processes timestamp_ns gpu mig pid memory_bytes";
        let documented = names(&fresh(), "SELECT table_name, column_name FROM schema_doc");
        for line in promised.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let mut words = line.split(' ');
            let table = words.next().unwrap();
            for column in words {
                assert!(documented.contains(&(table.into(), column.into())), "{table}.{column} is missing");
            }
        }
    }

    #[test]
    fn every_view_answers_and_dated_tables_are_found_by_time() {
        let db = fresh();
        for view in VIEWS {
            db.query_row(&format!("SELECT count(*) FROM {}", view.name), [], |_| Ok(())).unwrap();
        }
        for table in TABLES {
            let Some(age) = table.age else { continue };
            let plan: String = db
                .query_row(
                    &format!("EXPLAIN QUERY PLAN DELETE FROM {} WHERE {age} < 5", table.name),
                    [],
                    |row| row.get(3),
                )
                .unwrap();
            assert!(plan.starts_with("SEARCH"), "{}: {plan}", table.name);
        }
        let plan = db
            .prepare(
                "EXPLAIN QUERY PLAN SELECT * FROM cuda_events WHERE timestamp_ns > 5 AND op = 'cudaMalloc'",
            )
            .unwrap()
            .query_map([], |row| row.get::<_, String>(3))
            .unwrap()
            .collect::<Result<Vec<_>, _>>()
            .unwrap();
        assert!(plan[0].contains("SEARCH c USING INDEX calls_timestamp_ns"), "{plan:?}");
    }

    #[test]
    fn the_newest_events_are_found_without_sorting_all() {
        let plan = fresh()
            .prepare("EXPLAIN QUERY PLAN SELECT * FROM events ORDER BY timestamp_ns DESC LIMIT 5")
            .unwrap()
            .query_map([], |row| row.get::<_, String>(3))
            .unwrap()
            .collect::<Result<Vec<_>, _>>()
            .unwrap();
        assert!(!plan.iter().any(|step| step.contains("TEMP B-TREE")), "{plan:#?}");
    }

    #[test]
    fn kept_numbers_are_places_in_the_list() {
        for (place, kept) in KEPT.into_iter().enumerate() {
            assert_eq!(kept_number(kept), Some(place as i64 + 1));
        }
    }
}
