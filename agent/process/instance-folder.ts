// Folder of one instance in the process driver: its process, its exit and its output. Everything that
// adoption needs is in this folder, so that it works after the loss of all other state of the agent.
import { randomBytes } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type BearerSecret, readBearerSecret } from "../../proto/bearer-secret.ts";
import type { DeploymentId, InstanceId } from "../../proto/ids.ts";
import { replaceFileSync } from "../../proto/replace-file.ts";
import type { ProcessIdentity } from "./process-identity.ts";

export interface Launch {
  readonly instanceId: InstanceId;
  readonly deployId: DeploymentId;
  readonly generation: number;
  readonly memoryBytes: number;
  readonly claimedGpus?: readonly string[] | undefined;
  /** The control group that limits its memory; undefined where this host has none. */
  readonly cgroup?: string | undefined;
  /** In the child's environment: it proves that a process is this launch and no other. */
  readonly launchId: string;
  readonly launchedAtMs: number;
  /** Port that the driver chose; undefined: the process reports its own address. */
  readonly port?: number | undefined;
}

export interface Exit {
  readonly exitCode: number | undefined;
  readonly signal: string | undefined;
  readonly oomKilled: boolean;
  readonly finishedAtMs: number;
}

export interface InstanceFolder {
  readonly path: string;
  readonly log: string;
  /** Written by the child's shell before it becomes the runtime, so that a pid is known whenever there is a process. */
  readonly pidFile: string;
  /** Written by the runtime once it listens. */
  readonly addressFile: string;
  /** Secret that the runtime requires in every request; mode 0600. */
  readonly secretFile: string;
}

export function instanceFolder(base: string, id: InstanceId): InstanceFolder {
  const path = join(base, id);
  const at = (name: string) => join(path, name);
  return {
    path,
    log: at("runtime.log"),
    pidFile: at("pid"),
    addressFile: at("address.json"),
    secretFile: at("secret"),
  };
}

/** Before anything runs: no process without a record, no record that names an older process. Each launch has a secret of its own. */
export function writeLaunch(folder: InstanceFolder, launch: Launch): void {
  mkdirSync(folder.path, { recursive: true, mode: 0o700 });
  for (const stale of [folder.pidFile, folder.addressFile, folder.secretFile, join(folder.path, "exit.json")])
    rmSync(stale, { force: true });
  writeFileSync(folder.secretFile, randomBytes(32).toString("base64url"), { mode: 0o600, flag: "wx" });
  writeJson(join(folder.path, "process.json"), launch);
}

/** Undefined when the launch has no readable secret, e.g. one by an older agent. */
export function readSecret(folder: InstanceFolder): BearerSecret | undefined {
  try {
    return readBearerSecret(folder.secretFile);
  } catch {
    return undefined;
  }
}

export function writeIdentity(folder: InstanceFolder, launch: Launch, identity: ProcessIdentity): void {
  writeJson(join(folder.path, "process.json"), { ...launch, ...identity });
}

export function writeExit(folder: InstanceFolder, exit: Exit): void {
  writeJson(join(folder.path, "exit.json"), exit);
}

export function readLaunch(folder: InstanceFolder): (Launch & Partial<ProcessIdentity>) | undefined {
  const record = readJson(join(folder.path, "process.json"));
  return typeof record?.["launchId"] === "string"
    ? (record as unknown as Launch & Partial<ProcessIdentity>)
    : undefined;
}

export function readExit(folder: InstanceFolder): Exit | undefined {
  const record = readJson(join(folder.path, "exit.json"));
  return record === undefined
    ? undefined
    : {
        exitCode: record["exitCode"] as number | undefined,
        signal: record["signal"] as string | undefined,
        oomKilled: record["oomKilled"] === true,
        finishedAtMs: Number(record["finishedAtMs"]),
      };
}

export function readPid(folder: InstanceFolder): number | undefined {
  try {
    const pid = Number(readFileSync(folder.pidFile, "utf8"));
    return Number.isSafeInteger(pid) && pid > 1 ? pid : undefined;
  } catch {
    return undefined;
  }
}

/** Origin that the process listens on. Undefined until our runtime reports it, with its own pid and instance id. */
export function readOrigin(folder: InstanceFolder, pid: number, id: InstanceId, port?: number): string | undefined {
  // Another program reports nothing: the health check finds out when it listens.
  if (port !== undefined) return `http://127.0.0.1:${port}`;
  const address = readJson(folder.addressFile);
  if (address?.["pid"] !== pid || address["instance_id"] !== id) return undefined;
  const host = String(address["host"]);
  return `http://${host.includes(":") ? `[${host}]` : host}:${Number(address["port"])}`;
}

export function removeFolder(folder: InstanceFolder): void {
  rmSync(folder.path, { recursive: true, force: true });
}

export function instanceIdsIn(base: string): readonly InstanceId[] {
  try {
    return readdirSync(base, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map((entry) => entry.name as InstanceId);
  } catch {
    return [];
  }
}

const writeJson = (path: string, value: object) =>
  replaceFileSync(path, `${JSON.stringify(value)}\n`, { isDurable: false });

function readJson(path: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(readFileSync(path, "utf8"));
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}
