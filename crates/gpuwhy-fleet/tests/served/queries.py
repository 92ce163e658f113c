"""DuckDB opens a copy of the store and runs the guide's queries: queries.py FILE GUIDE"""

import re
import sys

import duckdb

file, guide = sys.argv[1:3]
connection = duckdb.connect(file)
queries = re.findall(r"```sql\n(.*?)```", open(guide).read(), re.S)
assert len(queries) >= 7, queries
for query in queries:
    connection.execute(query).fetchall()
print(connection.execute("SELECT count(*) FROM events").fetchone()[0], "events,", len(queries), "queries")
