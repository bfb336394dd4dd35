// Reads the state of this host from the local agent, without a control plane or an API key.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import { CliError, exitCode } from "../cli-error.ts";
import type { Command } from "../command.ts";
import {
  gpuLine,
  instanceLine,
  type Load,
  loadLine,
  type NodeGpu,
  type NodeInstance,
  type Spool,
  troubles,
} from "../node.ts";

interface Inspection {
  readonly node_id: string;
  readonly name: string;
  readonly agent_version: string;
  readonly driver: string;
  readonly advertise: string;
  readonly control: {
    readonly addresses: readonly string[];
    readonly connected: boolean;
    /** Agents of earlier versions omit this field and the next one. */
    readonly fenced_why?: string;
    readonly admits_requests?: boolean;
    readonly epoch: number;
    readonly lease_remaining_seconds: number;
    readonly clock_skew_seconds: number;
  };
  readonly usage_spool: Spool;
  readonly os: string;
  readonly docker_version: string;
  readonly nvidia_driver_version: string;
  readonly cuda_version: string;
  readonly warnings: readonly string[];
  readonly load: Load | null;
  readonly gpu_sample_age_seconds: number | null;
  readonly gpus: readonly NodeGpu[];
  readonly instances: readonly (NodeInstance & { readonly fail_reason: string })[];
}

const limitMs = 5_000;

export function addInspect(program: Command): void {
  program
    .command("inspect")
    .description("show this host from its local agent; works while the control plane is down")
    .option(
      "--data <folder>",
      "data folder of the agent (default: STOKER_AGENT_DATA, or the folders under STOKER_DATA)",
    )
    .run(async (terminal, flags: { data?: string }) => {
      const folders = agentFolders(flags.data, process.env, process.cwd());
      const found = await Promise.all(folders.map(inspect));
      if (terminal.isStructured && found.length === 1) return terminal.show(found[0], String);
      terminal.show(found, (all) => all.map(describe).join("\n\n"));
    });
}

/** Data folders that contain agent.json, which names the agent's port. Throws CliError if there is none. */
function agentFolders(flag: string | undefined, env: NodeJS.ProcessEnv, cwd: string): readonly string[] {
  const named = flag ?? env["STOKER_AGENT_DATA"];
  const roots = [env["STOKER_DATA"] ?? ".stoker", resolve(import.meta.dirname, "../../.stoker")];
  const likely = [...roots.flatMap(agentsUnder), join(homedir(), ".stoker-agent"), "/var/lib/stoker/agent"];
  const folders = (named === undefined ? likely : [named, ...agentsUnder(named)]).map((folder) => resolve(cwd, folder));
  const found = [...new Set(folders)].filter((folder) => existsSync(join(folder, "agent.json")));
  if (found.length > 0) return found;
  const where = named === undefined ? "in the default folders" : `at ${named}`;
  throw new CliError(`No agent found ${where}. Set its data folder with --data.`, exitCode.notFound);
}

/** Agent folders in the data folder of `up`. */
function agentsUnder(root: string): readonly string[] {
  if (!existsSync(root)) return [];
  return readdirSync(root, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && entry.name.startsWith("agent"))
    .flatMap((entry) => {
      const folder = join(root, entry.name);
      return [folder, ...(entry.name === "agents" ? readdirSync(folder).map((name) => join(folder, name)) : [])];
    });
}

async function inspect(folder: string): Promise<Inspection> {
  let origin = "";
  try {
    const {
      metrics_host: host = "127.0.0.1",
      metrics_port: port,
      metrics_token_file: tokenFile,
    } = JSON.parse(readFileSync(join(folder, "agent.json"), "utf8")) as {
      metrics_host?: string;
      metrics_port: number;
      metrics_token_file?: string;
    };
    const reached = /^(0\.0\.0\.0|::)$/.test(host) ? "127.0.0.1" : host;
    origin = `http://${reached.includes(":") ? `[${reached}]` : reached}:${port}`;
    const answer = await fetch(`${origin}/inspect`, {
      headers: tokenFile === undefined ? {} : { authorization: `Bearer ${readFileSync(tokenFile, "utf8").trim()}` },
      signal: AbortSignal.timeout(limitMs),
    });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    return (await answer.json()) as Inspection;
  } catch (cause) {
    throw new CliError(
      `Could not reach the agent of ${folder}${origin && ` at ${origin}`}: ${(cause as Error).message}. Check that it is running.`,
      exitCode.unavailable,
      { cause },
    );
  }
}

function describe(host: Inspection): string {
  const { control, usage_spool: spool } = host;
  const age = host.gpu_sample_age_seconds;
  const facts = [
    ["id", host.node_id],
    ["agent", `${host.agent_version}, driver ${host.driver}`],
    ["control", `${control.addresses.join(", ") || "none (uses a file)"} (${sessionOf(control)})`],
    ["data path", host.advertise],
    ["spool", `${spool.records} records, ${spool.bytes} bytes, oldest ${Math.round(spool.oldest_age_seconds)} s`],
    ["system", host.os],
    ["docker", host.docker_version],
    ["nvidia", host.nvidia_driver_version && `${host.nvidia_driver_version}, CUDA ${host.cuda_version || "unknown"}`],
    ["load", host.load ? loadLine(host.load) : ""],
    ...host.warnings.map((warning) => ["warning", warning] as const),
    ...troubles(host.gpus).map((trouble) => ["fault", trouble] as const),
  ] as const satisfies readonly (readonly [string, string])[];
  return [
    host.name,
    ...facts.filter(([, value]) => value !== "").map(([name, value]) => `  ${name.padEnd(10)} ${value}`),
    ...(host.gpus.length > 0 ? [age === null ? "GPUs" : `GPUs (${Math.round(age)} s ago)`] : []),
    ...host.gpus.map((gpu) => `  ${gpuLine(gpu)}`),
    ...(host.instances.length > 0 ? ["Instances"] : []),
    ...host.instances.flatMap((one) => [
      `  ${instanceLine(one)}`,
      ...(one.fail_reason ? [`    ${one.fail_reason}`] : []),
    ]),
  ].join("\n");
}

function sessionOf(control: Inspection["control"]): string {
  if (control.fenced_why) return `FENCED, serves and starts nothing: ${control.fenced_why}`;
  if (control.connected)
    return `connected, epoch ${control.epoch}, lease ${Math.round(control.lease_remaining_seconds)} s`;
  if (control.admits_requests === false)
    return "NOT connected since the agent started; instances keep running, requests wait for the control plane";
  return "NOT connected; requests are still served, usage is kept";
}
