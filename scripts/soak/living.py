"""One agent that lives through everything that is done to its host."""

import signal
import threading
import time

from agent import Agent
from host import Counted, changed_code, check_trace, children_rss_kib, code_left, left_of, objects_of, rss_kib, slope
from workloads import Workloads

# The agent's memory may grow by so much a minute, from when it has met all kinds of processes.
MOST_SLOPE_KIB = 2048


class Memory(threading.Thread):
    """Samples the memory of a process ten times a second, and what was done to the host when it had most."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.samples, self.over = pid, [], threading.Event()
        self.doing, self.peak, self.child_kib = "nothing yet", (0, 0, ""), 0
        self.start()

    def run(self):
        began = time.monotonic()
        while not self.over.wait(0.1):
            try:
                sample = (time.monotonic() - began, rss_kib(self.pid))
                self.child_kib = max(self.child_kib, children_rss_kib(self.pid))
            except OSError:
                return
            if not sample[1]:
                # It has ended, and nobody has asked for its status yet.
                return
            self.samples.append(sample)
            self.peak = max(self.peak, (sample[1], sample[0], self.doing))

    def figures(self):
        """First, most and last in MiB, and the slope of the second half in KiB a minute."""
        self.over.set()
        values = [kib for _, kib in self.samples] or [0]
        half = self.samples[len(self.samples) // 2:]
        return values[0] / 1024, max(values) / 1024, values[-1] / 1024, slope(half)


def living(program, stand_in, folder, seconds, seed, report):
    workloads = Workloads(stand_in, folder, seed)
    # What runs on all the time; its code is looked at when the agent has gone.
    stop = folder / "stop"
    lasting = workloads.start("--launches", 0, "--hz", 500, "--stop-file", stop)
    agent = Agent(program, folder / "living.db", "--max-size", "200M")
    if not agent.await_attached():
        report.fail("the agent did not attach")
        return
    memory = Memory(agent.pid)
    kinds = [workloads.storm, workloads.pythons, workloads.containers, workloads.time_namespaces, workloads.replaced_libraries, workloads.stopped]
    end = time.monotonic() + seconds
    paused = 0
    rises = {}
    while time.monotonic() < end and agent.is_running():
        kind = kinds[workloads.random.randrange(len(kinds))]
        before, memory.doing = rss_kib(agent.pid), kind.__name__
        kind()
        rises[kind.__name__] = rises.get(kind.__name__, 0) + rss_kib(agent.pid) - before
        if workloads.random.random() < 0.1:
            before, memory.doing = rss_kib(agent.pid), "stopped agent"
            agent.process.send_signal(signal.SIGSTOP)
            storm = threading.Thread(target=workloads.storm)
            storm.start()
            time.sleep(workloads.random.uniform(0.5, 2.0))
            agent.process.send_signal(signal.SIGCONT)
            storm.join()
            paused += 1
            rises["stopped agent"] = rises.get("stopped agent", 0) + rss_kib(agent.pid) - before
    if not agent.is_running():
        report.fail(f"the agent ended by itself with {agent.process.returncode}")
    memory.doing = "its end"
    time.sleep(2)
    probed = changed_code(lasting.pid, "libcuda.so.1")
    held = objects_of(agent.pid) if agent.is_running() else set()
    status = agent.end()
    first, most, last, grows = memory.figures()
    left = left_of(held)
    behind = code_left([lasting.pid], "libcuda.so.1")
    stop.touch()
    workloads.note("lasting", lasting, exact=False)
    lasting_pid = lasting.pid
    for kind, count in sorted(workloads.done.items()):
        report.row(f"processes: {kind}", count)
    report.row("times the agent was stopped (SIGSTOP) for up to 2 s", paused)
    report.check("the agent's exit status after Ctrl-C", status, status == 0)
    report.row("agent's memory: first, most, last", f"{first:.0f}, {most:.0f}, {last:.0f} MiB")
    report.row("the most that a process took which explained the trace meanwhile", f"{memory.child_kib / 1024:.0f} MiB")
    report.row("when it had most", f"after {memory.peak[1]:.0f} s, during {memory.peak[2]}")
    report.row("what it rose by, in MiB, during each", ", ".join(f"{kind} {kib / 1024:.0f}" for kind, kib in rises.items()))
    report.check("slope of its memory in the second half", f"{grows:.0f} KiB a minute", grows <= MOST_SLOPE_KIB)
    report.check("bytes of probed code while it ran, and after", f"{probed}, {behind}", probed > 0 and behind == 0)
    report.check("eBPF programs and links it held, and left", f"{len(held)}, {len(left)}", held and not left)
    wrong = check_trace(program, agent.out)
    report.check("its trace", wrong or "whole, explained", wrong is None)
    counts(workloads, Counted(agent.out), lasting_pid, report)


def counts(workloads, counted, lasting, report):
    """Launches by process as the workloads say and as the trace has them."""
    wrong = [(pid, true, found) for pid, true, lived in workloads.true if (found := counted.of(pid, lived)) != true]
    true = sum(true for _, true, _ in workloads.true)
    found = sum(counted.of(pid, lived) for pid, _, lived in workloads.true)
    report.check(
        f"launches of {len(workloads.true)} processes that ended well: true, in the trace", f"{true}, {found}", not wrong)
    for pid, true, found in wrong[:5]:
        report.note(f"process {pid}: {true} launches, {found} in the trace")
    if len(wrong) > 5:
        report.note(f"and {len(wrong) - 5} processes more")
    loose = [(true, counted.of(pid, lived)) for pid, true, lived in workloads.loose if pid != lasting]
    # Of a library that turns up for the first time the first calls may be missed, never any counted twice.
    report.check("launches in libraries that were replaced: true, in the trace",
                 f"{sum(true for true, _ in loose)}, {sum(found for _, found in loose)}",
                 all(found <= true for true, found in loose))
