// docs/clients.md: one row for each client, written by the nightly run.
import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { type Client, type FeatureName, features, notRun, type Surface } from "./client-table.ts";

const root = join(import.meta.dirname, "../../..");

export interface ClientResult {
  readonly client: Client;
  /** Undefined: not installed. */
  readonly version: string | undefined;
  readonly passed: readonly FeatureName[];
  readonly failed: readonly FeatureName[];
}

const surfaces: readonly Surface[] = ["Chat", "Responses", "Messages", "Other tasks", "Coding session", "MCP"];

const head = `# Clients

Clients that work with Stoker unmodified. The nightly run writes this page (\`test/integration/clients/every-client.test.ts\`): it
starts a control plane, an agent and PostgreSQL, offers a model of each task, and runs every client against them.

- The engine is scripted: a model's text does not decide a result. It calls tools, replies with values of JSON schemas, and plays the
  coding session of each agent: read a file, edit it by the agent's own tool, finish.
- A feature passes if the client returns the expected value and Stoker has recorded the usage of its requests.
- **text**: one reply. **stream**: the parts of a streamed reply. **tools**: a call of a function, and a reply with its result.
  **schema**: a reply in a JSON schema, parsed by the client. **batch**: a batch of requests, and its results.
- WebSockets (realtime transcription, speech of streamed text) are used through TLS, which the clients require. The synchronous Python clients of OpenAI and
  ElevenLabs (package \`websockets\`) read and write TLS in two threads, which Python's ssl module does not support (CPython issue 77271):
  on Python 3.11, 2 of 445 connections to a server that is not Stoker hung in the handshake. OpenAI's client is run by
  \`AsyncOpenAI\`, which does not have the fault.
- Codex runs with the configuration in \`docs/operations/responses.md\`. It needs \`web_search = "disabled"\`: otherwise it offers a web
  search that runs on OpenAI's servers, which Stoker refuses with 400 \`unsupported_tool\`.
- LlamaIndex and Instructor need OpenAI's Python client before 3, and aider fixes the versions of its dependencies: they are installed
  separately.

`;

/** Writes docs/clients.md, formatted. */
export async function writeClientPage(results: readonly ClientResult[]): Promise<void> {
  const page = join(root, "docs/clients.md");
  writeFileSync(page, clientPage(results, new Date().toISOString().slice(0, 10)));
  const biome = join(root, "node_modules/@biomejs/biome/bin/biome");
  await promisify(execFile)(process.execPath, [biome, "format", "--write", page], { cwd: root });
}

function clientPage(results: readonly ClientResult[], date: string): string {
  const rows = [
    ["Client", "Registry", "Package", "Version", ...surfaces],
    ...results.map(rowOf),
    ...notRun.map(({ name, registry, reason }) => [
      name,
      registry,
      "",
      `not run: ${reason}`,
      ...surfaces.map(() => ""),
    ]),
  ];
  const run = results.filter(({ version }) => version !== undefined);
  const count = run.reduce((sum, { passed }) => sum + passed.length, 0);
  const failed = run.reduce((sum, one) => sum + one.failed.length, 0);
  const summary = `Last run: ${date}, ${run.length} clients, ${count} features passed, ${failed} failed.\n\n`;
  return `${head}${summary}${markdownTable(rows)}\n`;
}

function rowOf({ client, version, passed, failed }: ClientResult): string[] {
  const cell = (surface: Surface) => {
    const parts = client.features.filter((name) => features[name].surface === surface);
    if (version === undefined) return parts.length > 0 ? "not run" : "";
    return parts
      .map((name) => {
        const { part } = features[name];
        return passed.includes(name) ? part : failed.includes(name) ? `**${part}: fails**` : `${part}: not run`;
      })
      .join(", ");
  };
  return [
    client.name,
    client.registry,
    `\`${client.package}\``,
    version ?? "not run: not installed",
    ...surfaces.map(cell),
  ];
}

function markdownTable([header = [], ...rows]: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  return [line(header), line(header.map(() => "---")), ...rows.map(line)].join("\n");
}
