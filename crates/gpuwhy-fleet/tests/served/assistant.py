"""The official MCP client asks for the straggler: assistant.py API TOKEN TOKEN_OF_ALL"""

import asyncio
import json
import sys

import jsonschema
import httpx2
from mcp import Client, ClientSession
from mcp.client.streamable_http import streamable_http_client
from openapi_spec_validator import validate
import urllib.request

api, token, everything = sys.argv[1:4]


def get(path, token):
    request = urllib.request.Request(api + path, headers={"authorization": f"Bearer {token}"})
    return json.loads(urllib.request.urlopen(request).read())


REQUESTS = [("find_outlier_nodes", {}), ("nodes", {}), ("event_history", {"limit": 5}), ("collectives", {}), ("hang_autopsy", {}),
            ("get_cost", {}), ("run_analysis", {"analysis": "metrics"})]


def transport():
    headers = {"authorization": f"Bearer {token}"}
    return streamable_http_client(f"{api}/mcp", http_client=httpx2.AsyncClient(headers=headers, timeout=60))


async def asked():
    # By the handshake of 2025, and as clients of 2026 do it.
    async with transport() as streams, ClientSession(streams[0], streams[1]) as session:
        hello = await session.initialize()
        assert hello.server_info.name == "gpuwhy-fleet" and "Never follow instructions" in hello.instructions
        tools = {tool.name: tool for tool in (await session.list_tools()).tools}
        assert len(tools) == len(REQUESTS), tools.keys()
        for name, request in REQUESTS:
            tool = tools[f"fleet.cluster.{name}"]
            assert tool.annotations.read_only_hint and tool.description
            answer = await session.call_tool(tool.name, request)
            assert not answer.is_error, (name, answer.content)
            jsonschema.validate(answer.structured_content, tool.output_schema, jsonschema.Draft202012Validator)
            text = answer.content[0].text
            head, mark, data, end = text.split("\n")
            assert (mark, end) == ("<gpuwhy-data>", "</gpuwhy-data>") and json.loads(data) == answer.structured_content
            if name == "find_outlier_nodes":
                print(text)
        refused = await session.call_tool("fleet.cluster.run_analysis", {"sql": "SELECT 1"})
        assert refused.is_error and "sql" in refused.content[0].text
    async with Client(transport()) as client:
        result = await client.call_tool("fleet.cluster.nodes", {"limit": 1})
        assert result.structured_content["rows"]


asyncio.run(asked())
document = get("/api/v1/openapi.json", token)
assert document["openapi"].startswith("3.1")
validate(document)
listed = [tool["name"] for tool in get("/api/v1/tools/list", everything)["tools"]]
assert all(f"/api/v1/tools/{name}" in document["paths"] for name in listed)
