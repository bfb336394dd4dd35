// Processes that a model server started and left behind when it ended. Its control group holds them all where there is one; elsewhere
// the launch id in their environment proves whose they are. A process group alone would not: pids are given out again.
import { readdir, readFile } from "node:fs/promises";
import { membersOf } from "./memory-cgroup.ts";
import { launchVariable } from "./spawn-runtime.ts";

/** Ends them. A process that forks faster than it is killed is met by the second round. */
export async function endSurvivors(leader: number, launchId: string, group: string | undefined): Promise<void> {
  if (process.platform !== "linux") kill(-leader);
  for (let round = 0; round < 2; round++) {
    const left = group ? membersOf(group) : await launchedWith(launchId);
    for (const pid of left) kill(pid);
    if (left.length === 0) return;
  }
}

/** Reads what every process of the host was started with: not on the thread that streams answers. */
async function launchedWith(launchId: string): Promise<readonly number[]> {
  const mark = `${launchVariable}=${launchId}`;
  const found: number[] = [];
  for (const pid of await processes()) {
    const environment = await readFile(`/proc/${pid}/environ`, "utf8").catch(() => "");
    if (environment.split("\0").includes(mark)) found.push(pid);
  }
  return found;
}

async function processes(): Promise<readonly number[]> {
  const names = await readdir("/proc").catch(() => []);
  return names.map(Number).filter((pid) => Number.isInteger(pid) && pid > 1 && pid !== process.pid);
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // Gone already.
  }
}
