-- What later versions of Ingero added to `crates/store/tests/trace_file/ingero.sql`, and rows.
UPDATE schema_info SET value = '0.10';
DROP INDEX idx_events_source_op;
CREATE INDEX idx_events_source_op_stack ON events(source, op, stack_hash);
ALTER TABLE stack_traces ADD COLUMN frames TEXT NOT NULL DEFAULT '';
ALTER TABLE events ADD COLUMN stack_ips TEXT NOT NULL DEFAULT '';
ALTER TABLE events ADD COLUMN cgroup_id INTEGER NOT NULL DEFAULT 0;
CREATE TABLE cgroup_metadata (cgroup_id INTEGER PRIMARY KEY, container_id TEXT NOT NULL DEFAULT '',
    cgroup_path TEXT NOT NULL DEFAULT '', pod_name TEXT NOT NULL DEFAULT '', namespace TEXT NOT NULL DEFAULT '');
ALTER TABLE events ADD COLUMN node TEXT NOT NULL DEFAULT '';
ALTER TABLE events ADD COLUMN rank INTEGER;
ALTER TABLE events ADD COLUMN local_rank INTEGER;
ALTER TABLE events ADD COLUMN world_size INTEGER;
ALTER TABLE events ADD COLUMN comm TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN node TEXT NOT NULL DEFAULT '';
CREATE TABLE annotations (id INTEGER PRIMARY KEY, timestamp INTEGER NOT NULL, labels TEXT NOT NULL,
    pid INTEGER NOT NULL DEFAULT 0, span_start INTEGER NOT NULL DEFAULT 0, span_end INTEGER NOT NULL DEFAULT 0);
PRAGMA user_version = 4;
INSERT INTO sessions (started_at, gpu_model, flags, ingero_ver) VALUES (1790000000000000050, 'T4', 'stack,record', 'dev');
INSERT INTO process_names VALUES (10, 'python3'), (11, 'a thread');
INSERT INTO stack_traces (hash, ips) VALUES (-5, '["0x10","0x20"]');
INSERT INTO events (timestamp, pid, tid, source, op, duration, arg0, arg1, ret_code, stack_hash) VALUES
    (1790000000000000000, 10, 10, 1, 7, 1000, 4096, 2, 0, -5),
    (1790000000000002000, 10, 10, 1, 3, 100, 80, 0, 0, 0), (1790000000000002010, 10, 10, 4, 1, 50, 96, 0, 700, 0),
    (1790000000000003000, 10, 10, 1, 3, 100, 80, 0, 0, 0), (1790000000000004000, 10, 10, 1, 3, 1000, 80, 0, 0, 0),
    (1790000000000004800, 10, 10, 3, 1, 400, 0, 10, 0, 0),
    (1790000000000004900, 12, 13, 3, 2, 0, 0, 10, 0, 0),
    (1790000000000006000, 10, 11, 1, 5, 500, 0, 0, 0, 0),
    (1790000000000007000, 10, 11, 7, 2, 600, 9, 64, 0, 0),
    (1790000000000008000, 66, 66, 5, 2, 700, 8, 1234, 0, 0),
    (1790000000000009000, 0, 0, 6, 1, 0, 72057637899501578, 327680443, 0, 0),
    (1790000000000009300, 10, 10, 99, 1, 0, 0, 0, 0, 0);
INSERT INTO annotations VALUES (1, 1790000000000005000, '{"step":"3"}', 10, 1790000000000001000, 1790000000000005000);
