"""What the soak found, as a table."""

import sys
import time


class Report:
    def __init__(self):
        self.parts, self.failures = [], []
        self.began = time.monotonic()

    def part(self, title):
        self.parts.append((title, [], []))
        print(f"\n{title}, after {time.monotonic() - self.began:.0f} s", flush=True)

    def row(self, what, value, mark=""):
        self.parts[-1][1].append((what, value, mark))
        print(f"  {what}: {value} {mark}", flush=True)

    def check(self, what, value, holds):
        self.row(what, value, "ok" if holds else "**FAILED**")
        if not holds:
            self.failures.append(f"{what}: {value}")

    def note(self, text):
        self.parts[-1][2].append(text)
        print(f"  {text}", flush=True)

    def fail(self, text):
        self.check(text, "", False)

    def write(self, path, head):
        lines = [head, ""]
        for title, rows, notes in self.parts:
            lines += [f"## {title}", "", "| what | figures | |", "|---|---|---|"]
            lines += [f"| {what} | {value} | {mark} |" for what, value, mark in rows]
            lines += [""] + [f"- {note}" for note in notes] + ([""] if notes else [])
        path.write_text("\n".join(lines))

    def end(self):
        for failure in self.failures:
            print(f"FAILED: {failure}", file=sys.stderr)
        return 1 if self.failures else 0
