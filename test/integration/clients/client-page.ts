// docs/clients.md: one row for each client, written by the nightly run.
import { type Client, type FeatureName, features, notRun, type Surface } from "./client-table.ts";

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
starts a control plane, an agent and PostgreSQL, offers a model of each task, and runs every client against them. Five light clients run
at every change.

- The engine is scripted: a model's text does not decide a result. It calls tools, replies with values of JSON schemas, and plays the
  coding session of each agent: read a file, edit it by the agent's own tool, finish.
- A feature passes if the client returns the expected value and Stoker has recorded the usage of its requests.
- **text**: one reply. **stream**: the parts of a streamed reply. **tools**: a call of a function, and a reply with its result.
  **schema**: a reply in a JSON schema, parsed by the client.

`;

export function clientPage(results: readonly ClientResult[], date: string): string {
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

function markdownTable(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, i) => Math.max(3, ...rows.map((row) => row[i]?.length ?? 0)));
  const line = (cells: readonly string[]) => `| ${cells.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join(" | ")} |`;
  const [header = [], ...rest] = rows;
  return [line(header), line(widths.map((width) => "-".repeat(width))), ...rest.map(line)].join("\n");
}
