// PostgreSQL outlives a killed parent, so a start first ends what an earlier one left on the same cluster.
import { readFileSync, readlinkSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { identify, type ProcessIdentity } from "../../agent/process/process-identity.ts";
import { endProcess } from "./end-process.ts";
import { UpError } from "./up-error.ts";

/** SIGINT is PostgreSQL's fast shutdown, SIGQUIT its immediate one (recovery from the log at the next start). */
export const stopSteps = [
  { signal: "SIGINT", waitMs: 12_000 },
  { signal: "SIGQUIT", waitMs: 5_000 },
  { signal: "SIGKILL", waitMs: 2_000 },
] as const;

/** Returns the pid it ended, or undefined when nothing was left over. */
export async function endLeftOver(cluster: string): Promise<number | undefined> {
  const pid = Number(postmasterFile(cluster)?.[0]);
  if (!Number.isInteger(pid) || pid < 2) return undefined;
  const found = identify(pid);
  if (!found || !serves(found, cluster)) return undefined;
  if (!(await endProcess(found, stopSteps))) {
    throw new UpError(`A PostgreSQL of an earlier start (pid ${pid}) does not stop; end it and start again.`);
  }
  return pid;
}

export function isReady(cluster: string, pid: number): boolean {
  const lines = postmasterFile(cluster);
  return Number(lines?.[0]) === pid && lines?.[7]?.trim() === "ready";
}

/** A postmaster works in its data folder; elsewhere than Linux its command line names it. */
function serves(candidate: ProcessIdentity, cluster: string): boolean {
  const wanted = realpathSync(cluster);
  if (process.platform === "linux") {
    try {
      return readlinkSync(`/proc/${candidate.pid}/cwd`) === wanted;
    } catch {
      return false;
    }
  }
  return postmasterFile(cluster)?.[1] === wanted;
}

function postmasterFile(cluster: string): string[] | undefined {
  try {
    return readFileSync(join(cluster, "postmaster.pid"), "utf8").split("\n");
  } catch {
    return undefined;
  }
}
