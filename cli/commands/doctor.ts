import { X509Certificate } from "node:crypto";
import { existsSync, readFileSync, statSync } from "node:fs";
import { statfs } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { CliError, exitCode } from "../cli-error.ts";
import type { Command } from "../command.ts";
import { localHost } from "../connection.ts";
import { dataFolders, runningFirst } from "../data-folders.ts";
import { type Finding, failure, findingsText, ok, warning } from "../doctor/finding.ts";
import { agentFolders } from "../local-agent.ts";
import type { Node } from "../node.ts";
import { hostName } from "../option-values.ts";
import { configPath } from "../profiles.ts";
import type { Terminal } from "../terminal.ts";

interface Flags {
  readonly node?: string;
  readonly data?: string;
}

export function addDoctor(program: Command, version: string): void {
  program
    .command("doctor")
    .description("check this machine and its way to the server; exits with 1 if a check fails")
    .example("stoker doctor --node gpu-1")
    .option("--node <node>", "check a host of the fleet by the control plane's record instead, by id or name", hostName)
    .option("--data <folder>", "data folder of an agent or of `up` (default: those on this machine)")
    .run(async (terminal, { node, data }: Flags) => {
      const findings = node === undefined ? await checkAll(terminal, version, data) : await checkNode(terminal, node);
      const failed = findings.filter(({ state }) => state === "failure").length;
      terminal.show({ healthy: failed === 0, findings }, () =>
        findingsText(findings, Math.min(process.stdout.columns || 80, 100)),
      );
      if (failed > 0) process.exitCode = exitCode.failed;
    });
}

async function checkNode(terminal: Terminal, node: string): Promise<readonly Finding[]> {
  const { nodeFindings } = await import("../doctor/agents.ts");
  return nodeFindings(await terminal.api.call<Node>("GET", `/v1/admin/nodes/${encodeURIComponent(node)}`));
}

async function checkAll(terminal: Terminal, version: string, data: string | undefined): Promise<readonly Finding[]> {
  // Only this command needs them.
  const [{ checkMachine, checkDisk, machineFacts }, { checkServer, certificateFinding }, { checkLocalAgent }] =
    await Promise.all([import("../doctor/machine.ts"), import("../doctor/server.ts"), import("../doctor/agents.ts")]);
  const folders = agentFolders(data, process.env, process.cwd());
  const [machine, disks, server, ...agents] = await Promise.all([
    checkMachine(machineFacts()),
    Promise.all(diskFolders(folders, data).map(async (folder) => checkDisk(await spaceOf(folder)))),
    isOnlyAgent(terminal, folders) ? [] : attempt(terminal, () => checkServer(terminal.connection, version)),
    ...folders.map((folder) => checkLocalAgent(folder, version)),
  ]);
  return [
    ...machine,
    ...disks,
    ...(isOnlyAgent(terminal, folders) ? [] : checkConfig(terminal)),
    ...ownCertificate(certificateFinding),
    ...server,
    ...agents.flat(),
  ];
}

/** A host of agents on which no server is configured: its agents report whether they reach their control planes. */
function isOnlyAgent(terminal: Terminal, agents: readonly string[]): boolean {
  try {
    const { host, profile, dataFolder } = terminal.connection;
    return agents.length > 0 && host === localHost && profile === undefined && dataFolder === undefined;
  } catch {
    return false;
  }
}

/** A configuration without a server is a finding, not the end of the command. */
async function attempt(terminal: Terminal, check: () => Promise<readonly Finding[]>): Promise<readonly Finding[]> {
  try {
    void terminal.connection;
  } catch (error) {
    if (!(error instanceof CliError)) throw error;
    return [failure("config", error.message, "Correct the flag, the variable or the file that it names.")];
  }
  return check();
}

/** Folders that hold data, without those on the same file system. */
function diskFolders(agents: readonly string[], data: string | undefined): readonly string[] {
  const [found = ".stoker"] = runningFirst(dataFolders(process.env, process.cwd()));
  const present = [resolve(data ?? found), ...agents].map(nearestExisting);
  const byDevice = new Map(present.map((folder) => [statSync(folder).dev, folder] as const));
  return [...byDevice.values()];
}

function nearestExisting(folder: string): string {
  return existsSync(folder) || dirname(folder) === folder ? folder : nearestExisting(dirname(folder));
}

async function spaceOf(folder: string) {
  const { blocks, bavail, bsize, files, ffree } = await statfs(folder);
  const freeInodes = files > 0 ? ffree : undefined;
  return { folder, totalBytes: blocks * bsize, freeBytes: bavail * bsize, freeInodes };
}

function checkConfig(terminal: Terminal): readonly Finding[] {
  const path = configPath(process.env);
  const mode = statSync(path, { throwIfNoEntry: false })?.mode;
  if (mode !== undefined && (mode & 0o077) !== 0)
    return [failure("config", `Other users can read the keys in ${path}.`, `chmod 600 ${path}`)];
  try {
    const { host, others = [], profile, dataFolder } = terminal.connection;
    const source = profile === undefined ? "no profile" : `profile ${profile}`;
    const folder = dataFolder === undefined ? "" : ` (\`up\` on ${dataFolder})`;
    return [ok("config", `${source}: ${[host, ...others].join(", ")}${folder}`)];
  } catch {
    // Reported by the check of the server.
    return [];
  }
}

/** Certificate that a control plane on this machine serves. */
function ownCertificate(finding: typeof import("../doctor/server.ts").certificateFinding): readonly Finding[] {
  const path = process.env["STOKER_TLS_CERT"];
  if (!path) return [];
  try {
    const { validToDate } = new X509Certificate(readFileSync(path));
    return [
      finding(path, validToDate.getTime() - Date.now(), 14, "Renew it; the control plane reads it again by itself."),
    ];
  } catch (error) {
    return [warning("certificate", `Could not read ${path}: ${(error as Error).message}`, "Correct STOKER_TLS_CERT.")];
  }
}
