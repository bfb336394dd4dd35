// What a model server started and left behind when it ended. The launch id in its environment proves whose it is; its
// process group alone would not, because pids are given out again.
import { readdirSync, readFileSync } from "node:fs";
import { membersOf } from "./memory-cgroup.ts";
import { launchVariable } from "./spawn-runtime.ts";

/** Ends them at once. A process that forks faster than it is killed is met by the second round. */
export function endSurvivors(leader: number, launchId: string, group: string | undefined): void {
  if (process.platform !== "linux") kill(-leader);
  for (let round = 0; round < 2; round++) {
    const left = new Set([...(group ? membersOf(group) : []), ...launchedWith(launchId)]);
    for (const pid of left) kill(pid);
    if (left.size === 0) return;
  }
}

function launchedWith(launchId: string): readonly number[] {
  const mark = `${launchVariable}=${launchId}`;
  return processes().filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/environ`, "utf8").split("\0").includes(mark);
    } catch {
      return false;
    }
  });
}

function processes(): readonly number[] {
  try {
    return readdirSync("/proc")
      .map(Number)
      .filter((pid) => Number.isInteger(pid) && pid > 1 && pid !== process.pid);
  } catch {
    return [];
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // Gone already.
  }
}
