// The MCP server, by the official client.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Edge, startEdge } from "../fakes/edge.ts";
import { adminKey, apiKey, jwtOfAda } from "../fakes/ports.ts";

let edge: Edge;
beforeAll(async () => {
  edge = await startEdge();
});
afterAll(() => edge?.close());

async function withClient<T>(key: string, use: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client({ name: "test", version: "1" });
  const headers = { authorization: `Bearer ${key}` };
  await client.connect(new StreamableHTTPClientTransport(new URL(`${edge.url}/mcp`), { requestInit: { headers } }));
  try {
    return await use(client);
  } finally {
    await client.close();
  }
}

const call = (name: string, args: Record<string, unknown> = {}, key = apiKey) =>
  withClient(key, async (client) => {
    const { content, isError } = await client.callTool({ name, arguments: args });
    const [part] = content as { type: string; text: string }[];
    return { isError: isError === true, text: part?.text ?? "" };
  });

describe("the MCP server", () => {
  it("describes its tools by the API's own schemas", async () => {
    const { tools } = await withClient(apiKey, (client) => client.listTools());
    const named = new Map(tools.map((tool) => [tool.name, tool]));
    expect(named.get("get_deployment_logs")).toMatchObject({
      annotations: { readOnlyHint: true },
      inputSchema: { required: ["deploy_id"], properties: { limit: { type: "integer" } } },
    });
    expect(named.get("delete_deployment")?.annotations).toMatchObject({ destructiveHint: true, readOnlyHint: false });
    expect(named.get("deploy_llm")?.inputSchema.properties).toHaveProperty("model_name");
    expect(named.has("list_hosts")).toBe(false);
    const ofOperators = await withClient(adminKey, (client) => client.listTools());
    expect(ofOperators.tools.map(({ name }) => name)).toContain("list_hosts");
  });

  it("calls the API under the caller's key", async () => {
    expect(JSON.parse((await call("list_models")).text).data[0].id).toBe("org/model");
    const [one] = JSON.parse((await call("list_deployments")).text);
    const { text, isError } = await call("get_deployment", { deploy_id: one.deploy_id });
    expect([isError, JSON.parse(text).deploy_id]).toEqual([false, one.deploy_id]);
    expect((await call("stop_deployment", { deploy_id: one.deploy_id })).isError).toBe(false);
    expect(JSON.parse((await call("list_hosts", {}, adminKey)).text)).toHaveProperty("nodes");
  });

  it("reports the API's refusals and invalid arguments as errors of the tool", async () => {
    const unknown = await call("get_deployment", { deploy_id: "none" });
    expect([unknown.isError, unknown.text]).toEqual([true, expect.stringContaining("not found")]);
    const invalid = await call("deploy_llm", { model_name: "ada/x", num_gpus: 1_000 });
    expect(invalid.isError).toBe(true);
    const foreign = await withClient(apiKey, (client) =>
      client.callTool({ name: "list_hosts", arguments: {} }).then(
        ({ isError }) => isError === true,
        () => true,
      ),
    );
    expect(foreign).toBe(true);
  });
});

describe("a request to /mcp", () => {
  const list = { jsonrpc: "2.0", id: 1, method: "tools/list", params: {} };
  const post = (body: unknown, key = apiKey) =>
    edge.post("/mcp", body, {
      headers: { authorization: `Bearer ${key}`, accept: "application/json, text/event-stream" },
    });

  it.each([
    ["an unknown key", list, "wrong", 401],
    ["a scoped token", list, jwtOfAda, 403],
    ["a list of messages", [list, list], apiKey, 422],
    ["a body that is no JSON", "{", apiKey, 400],
    ["too large a body", { ...list, params: { text: "x".repeat(200_000) } }, apiKey, 413],
  ] as const)("with %s is refused (%#)", async (_name, body, key, status) => {
    expect((await post(body, key)).status).toBe(status);
  });

  it("refuses subscriptions instead of keeping a stream open", async () => {
    const _meta = {
      "io.modelcontextprotocol/protocolVersion": "2026-07-28",
      "io.modelcontextprotocol/clientInfo": { name: "test", version: "1" },
      "io.modelcontextprotocol/clientCapabilities": {},
    };
    const params = { _meta, notifications: { toolsListChanged: true } };
    const response = await edge.post(
      "/mcp",
      { jsonrpc: "2.0", id: 1, method: "subscriptions/listen", params },
      {
        headers: {
          accept: "application/json, text/event-stream",
          "mcp-protocol-version": "2026-07-28",
          "mcp-method": "subscriptions/listen",
        },
        signal: AbortSignal.timeout(30_000),
      },
    );
    expect(await response.text()).toMatch(/"error"|limit reached/);
  });

  it.each([
    ["*/*", 200],
    ["application/json", 400],
  ])("that accepts %s returns %i", async (accept, status) => {
    const headers = { authorization: `Bearer ${apiKey}`, accept };
    const response = await edge.post("/mcp", list, { headers });
    expect(response.status, await response.text()).toBe(status);
  });

  it("returns 202 without a body for a notification, as its description says", async () => {
    const notification = { jsonrpc: "2.0", method: "notifications/initialized" };
    const response = await edge.post("/mcp", notification, { headers: { authorization: `Bearer ${apiKey}` } });
    expect([response.status, await response.text()]).toEqual([202, ""]);
    const { paths } = await (await fetch(`${edge.url}/openapi.json`)).json();
    expect(Object.keys(paths["/mcp"].post.responses["202"])).toEqual(["description"]);
  });

  it("returns 405 for a stream of the server", async () => {
    const { status } = await fetch(`${edge.url}/mcp`, { headers: { authorization: `Bearer ${apiKey}` } });
    expect(status).toBe(405);
  });
});
