"""An assistant's scripted investigation, with the official client: `assistant.py stdio COMMAND...` or `assistant.py http URL`.

GPUWHY_TOKEN is the token, where one is needed, and SSL_CERT_FILE whom to trust. Prints what was checked; any failure is an exception."""

import json
import os
import sys
import time

import anyio
import httpx2
import jsonschema
from mcp import Client, ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

PROMISED = """get_check get_trace_stats get_causal_chains get_stacks run_sql run_demo get_test_report get_timeline get_processes
get_collectives get_memory get_graphs""".split()
OF_THE_HOST = ["get_check", "get_test_report"]
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


def servers():
    """The processes we started and the one that serves us over HTTP."""
    if pid := os.environ.get("GPUWHY_SERVER_PID"):
        return [int(pid)]
    return [int(pid) for task in os.listdir("/proc/self/task") for pid in open(f"/proc/self/task/{task}/children").read().split()]


def cpu_seconds():
    ticks = 0
    for pid in servers():
        words = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
        ticks += int(words[11]) + int(words[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def answer_of(tool, result):
    """The answer, after a look at its shape: fenced, typed, small."""
    assert not result.is_error, f"{tool.name}: {result.content[0].text}"
    text = result.content[0].text
    head, mark, data, end = text.split("\n")
    assert (mark, end) == ("<gpuwhy-data>", "</gpuwhy-data>"), f"{tool.name}: {text[:200]}"
    assert "never instructions" in head
    assert json.loads(data) == result.structured_content
    jsonschema.validate(result.structured_content, tool.output_schema, jsonschema.Draft202012Validator)
    assert len(data) <= 2000 * 3, f"{tool.name}: {len(data)} bytes"
    assert result.structured_content["next"]
    assert tool.name in OF_THE_HOST or "lost" in result.structured_content["coverage"], tool.name
    return result.structured_content


async def refused(session, words, tool, arguments):
    result = await session.call_tool(tool, arguments)
    text = result.content[0].text
    assert result.is_error and words in text and "\n" not in text, f"{tool} {arguments}: {text}"


async def investigate(session, checked):
    tools = {tool.name: tool for tool in (await session.list_tools()).tools}
    assert set(PROMISED) <= set(tools), set(PROMISED) - set(tools)
    for tool in tools.values():
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        jsonschema.Draft202012Validator.check_schema(tool.output_schema)
        assert tool.annotations.read_only_hint and len(tool.description) > 40
        for name, field in tool.input_schema["properties"].items():
            assert "description" in field or "$ref" in field, f"{tool.name}.{name}"
    checked.append(f"{len(tools)} tools listed, schemas are valid")

    prompts = (await session.list_prompts()).prompts
    assert [prompt.name for prompt in prompts] == ["investigate"]
    prompt = await session.get_prompt("investigate", {"question": "why is step 12 slow?", "since": "5m"})
    text = prompt.messages[0].content.text
    assert "why is step 12 slow?" in text and "last 5m" in text
    for word in text.replace("`", " ").replace(",", " ").replace(":", " ").replace(".", " ").split():
        assert not word.startswith(("get_", "run_")) or word in tools, word
    checked.append("prompt")

    resources = {str(resource.uri) for resource in (await session.list_resources()).resources}
    assert resources == {"gpuwhy://schema", "gpuwhy://trace"}
    schema = (await session.read_resource("gpuwhy://schema")).contents[0].text
    assert "## cuda_events" in schema and "`duration_ns`" in schema
    trace = (await session.read_resource("gpuwhy://trace")).contents[0].text
    assert "<gpuwhy-data>" in trace
    checked.append("resources")

    # What an assistant does: the worst finding, its evidence, its place in the code and in time.
    found = answer_of(tools["get_causal_chains"], await session.call_tool("get_causal_chains", {}))
    worst = found["findings"][0]
    assert sum(cause["share_pct"] for cause in worst["causes"]) <= 100.5
    rows = answer_of(tools["run_sql"], await session.call_tool("run_sql", {"statement": worst["sql"]}))
    assert rows["rows"], worst["sql"]
    window = worst["window"]
    timeline = answer_of(
        tools["get_timeline"],
        await session.call_tool("get_timeline", {"from_ns": window["start_ns"], "to_ns": window["end_ns"], "pid": worst["pid"]}),
    )
    assert timeline["tracks"]
    checked.append(f"investigated: {worst['title'][:60]}")

    answered, empty = 0, 0
    slow = [] if os.environ.get("GPUWHY_CAN_TRACE") else ["get_test_report"]
    for name, tool in tools.items():
        if name in slow:
            continue
        arguments = {"statement": "SELECT op, count FROM op_summary"} if name == "run_sql" else {}
        result = await session.call_tool(name, arguments)
        if result.is_error:
            assert result.content[0].text.startswith("the trace has no "), f"{name}: {result.content[0].text}"
            empty += 1
        else:
            answer_of(tool, result)
            answered += 1
    assert answered > empty
    checked.append(f"{answered} tools answered, {empty} had nothing to answer from")

    for call in [session.call_tool("get_nothing", {}), session.get_prompt("nothing", {}), session.read_resource("gpuwhy://nothing")]:
        try:
            await call
        except MCPError as error:
            assert "there is no" in str(error), error
        else:
            raise AssertionError("something that is not there was answered")
    await refused(session, "only SELECT is allowed", "run_sql", {"statement": "DELETE FROM calls"})
    await refused(session, "no such table", "run_sql", {"statement": "SELECT * FROM nowhere"})
    await refused(session, "missing field `statement`", "run_sql", {})
    await refused(session, "unknown field `colour`", "get_events", {"colour": "red"})
    await refused(session, "is not a duration", "get_events", {"since": "yesterday"})
    await refused(session, "max_tokens is a number", "get_events", {"max_tokens": "many"})
    await refused(session, "of process 4194999", "get_trace_stats", {"pid": 4194999})
    await refused(session, "there is no scenario 'nothing'; there are", "run_demo", {"scenario": "nothing"})
    await refused(session, "was stopped", "run_sql", {"statement": ENDLESS, "seconds": 1})
    checked.append("errors")

    # A call that is cancelled stops working, and the next one is answered at once.
    with anyio.move_on_after(1.0) as scope:
        await session.call_tool("run_sql", {"statement": ENDLESS, "seconds": 30})
    assert scope.cancelled_caught
    await anyio.sleep(0.5)
    before = cpu_seconds()
    await anyio.sleep(1.0)
    worked = cpu_seconds() - before
    assert worked < 0.3, f"{worked} s of CPU time after the call was cancelled"
    began = time.monotonic()
    await session.call_tool("get_trace", {})
    assert time.monotonic() - began < 10
    checked.append("cancellation")


async def main(way, words):
    checked = []
    token = os.environ.get("GPUWHY_TOKEN")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    if way == "stdio":
        transport = lambda: stdio_client(StdioServerParameters(command=words[0], args=words[1:], env=dict(os.environ)))
    else:
        transport = lambda: streamable_http_client(words[0], http_client=httpx2.AsyncClient(headers=headers, timeout=60))
    # By the handshake of 2025, and as clients of 2026 do it.
    async with transport() as streams, ClientSession(streams[0], streams[1]) as session:
        hello = await session.initialize()
        assert hello.server_info.name == "gpuwhy" and "Never follow instructions" in hello.instructions
        checked.append(f"initialize {hello.protocol_version}")
        await investigate(session, checked)
    async with Client(transport()) as client:
        assert len((await client.list_tools()).tools) >= len(PROMISED)
        result = await client.call_tool("get_trace_stats", {"limit": 1})
        assert result.structured_content["rows"]
        checked.append("the other way to begin")
    print(json.dumps(checked))


anyio.run(main, sys.argv[1], sys.argv[2:])
