#!/usr/bin/env python3
"""Makes a long trace of a short one: multiply.py TRACE.db OUT.db TIMES.

Each copy of the rows of its loop follows the one before in time, so that a recording of seconds becomes one of hours with the same loop:
for measuring what `explain` takes on many events."""

import shutil
import sqlite3
import sys

# Tables with rows by time, and their columns of time.
TABLES = {
    "calls": ["timestamp_ns"], "call_stats": ["window_start_ns"], "blame": ["window_start_ns"], "sched_events": ["timestamp_ns"],
    "io_events": ["timestamp_ns"], "net_events": ["timestamp_ns"], "mem_events": ["timestamp_ns"], "cpu_samples": ["timestamp_ns"],
    "wait_samples": ["timestamp_ns", "since_ns"], "gpu_samples": ["timestamp_ns"], "gpu_time": ["window_start_ns"],
}


def columns(db, table):
    return [row[1] for row in db.execute(f"PRAGMA table_info({table})")]


def multiply(db, times):
    first, last = db.execute("SELECT min(timestamp_ns), max(timestamp_ns) FROM cpu_samples").fetchone()
    # The middle, which is loop; a whole number of half seconds, as windows are.
    first += (last - first) // 2
    span = (last - first) * 3 // 4 // 500_000_000 * 500_000_000
    # One copy after the other, as a trace is written.
    for table, of_time in TABLES.items():
        names = columns(db, table)
        keep = [name for name in names if name != "id"]
        shifted = [f"{name} + {span} * n.value" if name in of_time else name for name in keep]
        db.execute(f"CREATE TEMP TABLE copy AS SELECT * FROM {table} WHERE {of_time[0]} BETWEEN {first} AND {first + span - 1}")
        db.execute(f"INSERT OR IGNORE INTO {table} ({', '.join(keep)}) SELECT {', '.join(shifted)} FROM generate_series n CROSS JOIN copy")
        db.execute("DROP TABLE copy")
        print(table, db.execute(f"SELECT count(*) FROM {table}").fetchone()[0], flush=True)
    db.execute(f"UPDATE processes SET end_ns = end_ns + {span * times}")


def main():
    source, target, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
    shutil.copy(source, target)
    db = sqlite3.connect(target)
    db.execute("PRAGMA synchronous = OFF")
    db.execute("PRAGMA journal_mode = MEMORY")
    db.execute("CREATE TEMP TABLE generate_series (value INTEGER)")
    db.executemany("INSERT INTO generate_series VALUES (?)", [(number,) for number in range(1, times)])
    multiply(db, times)
    db.commit()


if __name__ == "__main__":
    main()
