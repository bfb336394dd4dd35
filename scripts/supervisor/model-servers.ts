// Stops model servers of a killed agent by the records of the process driver. A stopped agent stops its own; the next agent adopts
// or removes containers.
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { isAlive, type ProcessIdentity, sendSignal } from "../../agent/process/process-identity.ts";
import { endProcess } from "./end-process.ts";

/** Running model servers of this data folder. */
export function runningModelServers(dataDir: string): readonly ProcessIdentity[] {
  return globSync("*/**/process.json", { cwd: join(dataDir, "agents") }).flatMap((file) => {
    const known = readIdentity(join(dataDir, "agents", file));
    return known && isAlive(known) ? [known] : [];
  });
}

export async function endModelServers(dataDir: string): Promise<void> {
  const steps = [
    { signal: "SIGTERM", waitMs: 3_000 },
    { signal: "SIGKILL", waitMs: 2_000 },
  ] as const;
  await Promise.all(runningModelServers(dataDir).map((server) => endProcess(server, steps)));
}

export function killModelServers(dataDir: string): void {
  for (const server of runningModelServers(dataDir)) sendSignal(server, "SIGKILL");
}

function readIdentity(path: string): ProcessIdentity | undefined {
  try {
    const { pid, startedAt } = JSON.parse(readFileSync(path, "utf8")) as Partial<ProcessIdentity>;
    return typeof pid === "number" && typeof startedAt === "string" ? { pid, startedAt } : undefined;
  } catch {
    return undefined;
  }
}
