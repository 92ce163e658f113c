"""Opens every file of a Parquet export with duckdb and with pyarrow: counts of rows, sums of numbers and lengths of
texts, column by column, must be those that SQLite has. read_parquet.py FOLDER TRACE"""

import json
import pathlib
import sqlite3
import sys

import duckdb
import pyarrow
import pyarrow.compute as compute
import pyarrow.parquet as parquet

folder, trace = pathlib.Path(sys.argv[1]), sqlite3.connect(f"file:{sys.argv[2]}?mode=ro", uri=True)
trace.text_factory = lambda text: text.decode(errors="replace")
names = [row[0] for row in trace.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")]
rows, columns = 0, 0
for name in sorted(set(names) - {"graph_launches"}):
    file = folder / f"{name}.parquet"
    table = parquet.read_table(file)
    documented = json.loads(table.schema.metadata[b"schema_doc"])
    coverage = json.loads(table.schema.metadata[b"gpuwhy"])["coverage"]
    info = trace.execute("SELECT name, type FROM pragma_table_info(?)", [name]).fetchall()
    meant = dict(trace.execute("SELECT column_name, about FROM schema_doc WHERE table_name = ?", [name]))
    own = [column for column, _ in info]
    # A file of an older version has what later ones added as nothing.
    assert [column for column in table.column_names if column in own] == own, name
    # In the words of the version that exports.
    assert set(documented) == set(table.column_names) >= set(meant) and all(text["about"] for text in documented.values()), name
    count = trace.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
    assert table.num_rows == count == duckdb.execute(f"SELECT count(*) FROM '{file}'").fetchone()[0], name
    for column in table.schema:
        values = table[column.name]
        if column.name not in own:
            assert values.null_count == count, column
            continue
        if str(column.type) == "string":
            theirs = (count - values.null_count, compute.sum(compute.utf8_length(values)).as_py())
            # SQLite's length() ends at a zero byte.
            texts = [row[0] for row in trace.execute(f'SELECT "{column.name}" FROM {name} WHERE "{column.name}" IS NOT NULL')]
            ours = (len(texts), sum(len(text) for text in texts) if texts else None)
            duck = f'SELECT count("{column.name}"), sum(length("{column.name}")) FROM \'{file}\''
        else:
            assert str(column.type) in ("int64", "double"), column
            wide = values.cast(pyarrow.decimal128(38, 0)) if str(column.type) == "int64" else values
            total = compute.sum(wide).as_py()
            theirs = (count - values.null_count, None if total is None else float(total))
            ours = f'SELECT count("{column.name}"), iif(count("{column.name}") = 0, NULL, total("{column.name}")) FROM {name}'
            ours = trace.execute(ours).fetchone()
            duck = f'SELECT count("{column.name}"), sum("{column.name}") FROM \'{file}\''
        duck = duckdb.execute(duck).fetchone()

        def near(a, b):
            return a == b or (a is not None and b is not None and abs(float(a) - float(b)) <= 1e-9 * max(abs(float(a)), 1))

        for other in (theirs, duck):
            assert all(near(a, b) for a, b in zip(ours, other)), (name, column.name, ours, other)
        columns += 1
    rows += count
print(json.dumps({"rows": rows, "columns": columns, "coverage": coverage}))
