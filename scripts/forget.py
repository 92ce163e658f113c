#!/usr/bin/env python3
"""Makes a trace fit to be shown: it names the traced programs and nothing else of the machine it was made on.
Usage: forget.py TRACE OUT.gz"""

import gzip
import os
import pathlib
import shutil
import sqlite3
import sys
import tempfile

# Table and columns with paths of which the last part is kept.
PATHS = [("frames", "file"), ("frames", "module"), ("libraries", "file"), ("processes", "exe"), ("probes", "file"),
         ("io_events", "file"), ("watch_changes", "file")]
EMPTIED = ["neighbours", "containers", "findings", "memory_places", "process_events"]
# Of processes that are nobody's business.
NAMELESS = [("processes", "cgroup"), ("processes", "tenant"), ("processes", "cpus_allowed"), ("processes", "mems_allowed"),
            ("processes", "unit"), ("sessions", "host"), ("sessions", "flags")]


def last_parts(db, table, column):
    db.create_function("last_part", 1, lambda path: path and path.rsplit("/", 1)[-1])
    db.execute(f"UPDATE OR REPLACE {table} SET {column} = last_part({column}) WHERE {column} LIKE '%/%'")


def forget(path):
    db = sqlite3.connect(path)
    traced = {row[0] for row in db.execute("SELECT DISTINCT pid FROM call_stats c JOIN ops o USING (op) WHERE o.layer <> 'driver'")}
    marks = ", ".join(map(str, sorted(traced)))
    for table in ("processes", "threads", "call_stats", "blame", "watch_costs"):
        db.execute(f"DELETE FROM {table} WHERE pid NOT IN ({marks})")
    for table in EMPTIED:
        db.execute(f"DELETE FROM {table}")
    for table, column in NAMELESS:
        db.execute(f"UPDATE {table} SET {column} = NULL")
    for table, column in PATHS:
        last_parts(db, table, column)
    db.create_function("short_command", 1, lambda line: line and " ".join(word.rsplit("/", 1)[-1] for word in line.split(" ")))
    db.execute("UPDATE processes SET cmdline = short_command(cmdline), job_user = NULL")
    db.execute("UPDATE gpu_samples SET uuid = NULL")
    db.execute("PRAGMA journal_mode = DELETE")
    db.commit()
    db.execute("VACUUM")
    db.close()


def main():
    source, out = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "trace.db"
        shutil.copy(source, copy)
        forget(copy)
        with open(copy, "rb") as trace, gzip.GzipFile(out, "wb", mtime=0) as packed:
            shutil.copyfileobj(trace, packed)
    print(f"{out}: {os.path.getsize(out)} bytes")


main()
