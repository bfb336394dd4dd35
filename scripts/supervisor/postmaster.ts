// PostgreSQL survives a killed parent. Stops the PostgreSQL of an earlier start on the same cluster.
import { readFileSync, readlinkSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { identify, type ProcessIdentity } from "../../agent/process/process-identity.ts";
import { endProcess } from "./end-process.ts";
import { UpError } from "./up-error.ts";

/** SIGINT is PostgreSQL's fast shutdown, SIGQUIT the immediate one with recovery at the next start. */
export const stopSteps = [
  { signal: "SIGINT", waitMs: 12_000 },
  { signal: "SIGQUIT", waitMs: 5_000 },
  { signal: "SIGKILL", waitMs: 2_000 },
] as const;

/** Returns the pid of the stopped process, if any. */
export async function stopOrphan(cluster: string): Promise<number | undefined> {
  const pid = Number(postmasterFile(cluster)?.[0]);
  if (!Number.isInteger(pid) || pid < 2) return undefined;
  const found = identify(pid);
  if (!found || !serves(found, cluster)) return undefined;
  if (!(await endProcess(found, stopSteps))) {
    throw new UpError(`A PostgreSQL of an earlier start (pid ${pid}) does not stop. Stop it and start again.`);
  }
  return pid;
}

export function isReady(cluster: string, pid: number): boolean {
  const lines = postmasterFile(cluster);
  return Number(lines?.[0]) === pid && lines?.[7]?.trim() === "ready";
}

/** True if the process serves this cluster: by its working directory on Linux, otherwise by the pid file. */
function serves(candidate: ProcessIdentity, cluster: string): boolean {
  const expected = realpathSync(cluster);
  if (process.platform === "linux") {
    try {
      return readlinkSync(`/proc/${candidate.pid}/cwd`) === expected;
    } catch {
      return false;
    }
  }
  return postmasterFile(cluster)?.[1] === expected;
}

function postmasterFile(cluster: string): string[] | undefined {
  try {
    return readFileSync(join(cluster, "postmaster.pid"), "utf8").split("\n");
  } catch {
    return undefined;
  }
}
