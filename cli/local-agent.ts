// Agents on this machine, read from their own pages without a control plane or an API key.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import { CliError, exitCode } from "./cli-error.ts";
import { dataFolders } from "./data-folders.ts";
import type { Load, NodeGpu, NodeInstance, Spool } from "./node.ts";
import { runningUp } from "./running-up.ts";

export interface Inspection {
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

/** Data folders that contain agent.json, which names the agent's port. `flag`: only this folder and those of the `up` in it. */
export function agentFolders(flag: string | undefined, env: NodeJS.ProcessEnv, cwd: string): readonly string[] {
  const named = flag ?? env["STOKER_AGENT_DATA"];
  const roots = dataFolders(env, cwd);
  // Agents of an `up` that was stopped do not respond.
  const running = roots.filter((folder) => runningUp(folder) !== undefined);
  const likely = [
    ...(running.length > 0 ? running : roots).flatMap(agentsUnder),
    join(homedir(), ".stoker-agent"),
    "/var/lib/stoker/agent",
  ];
  const folders = (named === undefined ? likely : [named, ...agentsUnder(named)]).map((folder) => resolve(cwd, folder));
  return [...new Set(folders)].filter((folder) => existsSync(join(folder, "agent.json")));
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

/** Throws CliError if the agent does not respond. */
export async function inspect(folder: string): Promise<Inspection> {
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
