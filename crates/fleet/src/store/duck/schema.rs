//! The tables, declared once, with what brings an older file up to them.
//!
//! Texts with few values are said to be so: DuckDB would try every way to write them with each group of rows, which is a
//! twentieth of what a point costs.

/// Each brings the schema from its index to the next version. What has been released is never changed, only added to.
pub(super) const MIGRATIONS: &[&str] = &[
    "
CREATE TABLE events (
    timestamp_ns BIGINT NOT NULL,
    cluster_id VARCHAR USING COMPRESSION dictionary NOT NULL,
    node_id VARCHAR USING COMPRESSION dictionary NOT NULL,
    metric_name VARCHAR USING COMPRESSION dictionary NOT NULL,
    rank INTEGER,
    nranks INTEGER,
    value_double DOUBLE,
    value_int BIGINT,
    attrs VARCHAR,
    job_id VARCHAR USING COMPRESSION dictionary,
    kind VARCHAR USING COMPRESSION dictionary NOT NULL
);
CREATE TABLE collectives (
    timestamp_ns BIGINT NOT NULL,
    duration_ns BIGINT,
    cluster_id VARCHAR USING COMPRESSION dictionary NOT NULL,
    node_id VARCHAR USING COMPRESSION dictionary NOT NULL,
    job_id VARCHAR USING COMPRESSION dictionary,
    comm_id_hash VARCHAR USING COMPRESSION dictionary NOT NULL,
    seq BIGINT,
    op VARCHAR USING COMPRESSION dictionary NOT NULL,
    rank INTEGER,
    nranks INTEGER,
    comm_rank INTEGER,
    comm_nranks INTEGER,
    peer INTEGER,
    count BIGINT,
    datatype VARCHAR USING COMPRESSION dictionary,
    reduce_op VARCHAR USING COMPRESSION dictionary,
    pid BIGINT,
    tid BIGINT
);
CREATE TABLE findings (
    timestamp_ns BIGINT NOT NULL,
    cluster_id VARCHAR NOT NULL,
    node_id VARCHAR NOT NULL,
    job_id VARCHAR,
    rank INTEGER,
    source VARCHAR NOT NULL,
    class VARCHAR,
    severity VARCHAR,
    title VARCHAR NOT NULL,
    pid BIGINT,
    finding VARCHAR
);
CREATE TABLE nodes (
    cluster_id VARCHAR NOT NULL,
    node_id VARCHAR NOT NULL,
    first_seen_ns BIGINT NOT NULL,
    last_seen_ns BIGINT NOT NULL,
    resource VARCHAR
);
CREATE TABLE batches (id HUGEINT NOT NULL, received_ns BIGINT NOT NULL);
CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL, applied_ns BIGINT NOT NULL, program VARCHAR NOT NULL);
",
    // How far the journal is in the tables.
    "
CREATE TABLE journal (segment UBIGINT NOT NULL, position UBIGINT NOT NULL);
INSERT INTO journal VALUES (0, 0);
",
    // Which token pushed a row: each has its share of the store.
    "
ALTER TABLE events ADD COLUMN sender UINTEGER DEFAULT 0;
ALTER TABLE collectives ADD COLUMN sender UINTEGER DEFAULT 0;
ALTER TABLE findings ADD COLUMN sender UINTEGER DEFAULT 0;
",
];

/// Tables whose rows are forgotten by age, with the column that has it.
pub(super) const AGING: &[&str] = &["events", "collectives", "findings"];

/// What a question of ours may name, and what a tenant's clusters are told by.
pub(super) const TABLES: &[&str] = &["events", "collectives", "findings", "nodes"];
