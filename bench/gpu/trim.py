#!/usr/bin/env python3
"""Makes a recording small enough, and plain enough, to be a fixture of the tests.

    trim.py [--hide WORD]... FOLDER TRACE.db...

Writes FOLDER/NAME.db.gz: rows that no answer is made from are dropped (pages of documentation, attached probes, native
frames far from the innermost one), and folders, cgroups and host names of the machine are replaced, as are the words
to hide: names of programs that only that machine has."""

import argparse
import gzip
import pathlib
import re
import shutil
import sqlite3
import sys
import tempfile

# Native frames kept of each stack: the innermost says what a sample was in.
NATIVE_FRAMES = 3
PLAIN_FOLDER = "/srv/job/"
PROGRAMS = "bench/gpu/programs/"
HIDDEN = []


def plain(text):
    """Without what tells one machine from another."""
    if not isinstance(text, str):
        return text
    if PROGRAMS in text:
        before, _, rest = text.partition(PROGRAMS)
        words = before.split(" ")
        text = " ".join([*words[:-1], PLAIN_FOLDER + rest])
    if "/site-packages/" in text and " " not in text:
        text = "/venv/lib/python3.12/site-packages/" + text.split("/site-packages/", 1)[1]
    for word in HIDDEN:
        text = text.replace(word, "hidden")
    return re.sub(r"(?<!\S)/\S*/(python3|gpuwhy)(?!\S)", r"\1", text)


def base(path):
    """Of a library or program: its name alone."""
    return path.rsplit("/", 1)[-1] if isinstance(path, str) else path


def trim(source, folder):
    with tempfile.TemporaryDirectory() as scratch:
        copy = pathlib.Path(scratch) / source.name
        shutil.copy(source, copy)
        db = sqlite3.connect(copy)
        db.create_function("plain", 1, plain)
        db.create_function("base", 1, base)
        db.execute("PRAGMA journal_mode = DELETE")
        db.executescript(
            f"""DELETE FROM schema_doc; DELETE FROM findings; DELETE FROM probes WHERE state = 'attached'; DELETE FROM watch_costs;
            DELETE FROM frames WHERE kind <> 'python' AND depth >= {NATIVE_FRAMES}
                AND NOT (function IN ('Py_FinalizeEx', 'PyGC_Collect'));
            UPDATE frames SET file = plain(file), module = base(module), address = NULL;
            UPDATE probes SET file = plain(file); UPDATE libraries SET file = plain(file);
            UPDATE processes SET cmdline = plain(cmdline), exe = NULL, cgroup = '/job', tenant = '/job';
            UPDATE neighbours SET cgroup = '', tenant = '', comm = plain(comm);
            UPDATE blame SET by_comm = plain(by_comm); UPDATE sched_events SET by_comm = plain(by_comm);
            UPDATE io_events SET by_comm = plain(by_comm); UPDATE net_events SET by_comm = plain(by_comm);
            UPDATE sessions SET host = 'node', flags = '[]', kernel = '6.18';
            DELETE FROM neighbours WHERE pid NOT IN (SELECT by_pid FROM blame)
                AND pid NOT IN (SELECT by_pid FROM sched_events WHERE by_pid IS NOT NULL);"""
        )
        db.commit()
        db.execute("VACUUM")
        db.close()
        target = folder / f"{source.name}.gz"
        # The same bytes each time.
        target.write_bytes(gzip.compress(copy.read_bytes(), 9, mtime=0))
        print(f"{target}: {target.stat().st_size >> 10} KiB")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hide", action="append", default=[], metavar="WORD")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("traces", type=pathlib.Path, nargs="+")
    options = parser.parse_args()
    HIDDEN.extend(options.hide)
    options.folder.mkdir(parents=True, exist_ok=True)
    for trace in options.traces:
        trim(trace, options.folder)


if __name__ == "__main__":
    main()
