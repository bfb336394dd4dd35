// CPU time and memory of another process, threads included, from /proc (Linux).
import { readdirSync, readFileSync } from "node:fs";

const ticksPerSecond = 100;

/** User and system time so far, in milliseconds; resolution 10 ms. */
export function cpuMs(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  // The command name may hold spaces and parentheses: fields are counted after its last one.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return ((Number(fields[11]) + Number(fields[12])) * 1000) / ticksPerSecond;
}

/** CPU time of the processes that `pid` started, also of those that ended. */
export function childrenCpuMs(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const ended = ((Number(fields[13]) + Number(fields[14])) * 1000) / ticksPerSecond;
  const running = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ");
  return running.reduce(
    (sum, child) => sum + Number(readFileSync(`/proc/${child}/schedstat`, "utf8").split(" ")[0]) / 1e6,
    ended,
  );
}

/** `pid` and the processes below it that run now. */
export function treeOf(pid: number): readonly number[] {
  // A thread names its own children only.
  const children = readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
    readFileSync(`/proc/${pid}/task/${thread}/children`, "utf8").split(" ").filter(Boolean).map(Number),
  );
  return [pid, ...children.flatMap(treeOf)];
}

export const commandOf = (pid: number): string => readFileSync(`/proc/${pid}/comm`, "utf8").trim();

export function parentOf(pid: number): number {
  return Number(/PPid:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]);
}

export function residentMiB(pid: number): number {
  const line = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"));
  return Number(line?.[1] ?? 0) / 1024;
}
