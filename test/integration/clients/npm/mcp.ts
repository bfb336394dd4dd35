import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { base, key, serve } from "./driver.ts";

async function models(): Promise<readonly string[]> {
  const client = new Client({ name: "test", version: "1" });
  const headers = { authorization: `Bearer ${key}` };
  await client.connect(new StreamableHTTPClientTransport(new URL(`${base}/mcp`), { requestInit: { headers } }));
  const { content } = await client.callTool({ name: "list_models", arguments: {} });
  await client.close();
  const [part] = content as { text: string }[];
  const { data } = JSON.parse(part?.text ?? "") as { data: { id: string }[] };
  return data.map(({ id }) => id).sort();
}

await serve({ mcp: models });
