// Pids are reused, so a process is known by its pid together with the time it started and the boot it belongs to.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";

export interface ProcessIdentity {
  readonly pid: number;
  /** Opaque; constant while the process lives, different for a later process with the same pid. */
  readonly startedAt: string;
}

const isLinux = process.platform === "linux";

/** The process with this pid now; undefined when there is none, or it has ended and only waits to be collected. */
export function identify(pid: number): ProcessIdentity | undefined {
  const startedAt = isLinux ? startOnLinux(pid) : startElsewhere(pid);
  return startedAt === undefined ? undefined : { pid, startedAt };
}

export function isAlive(known: ProcessIdentity): boolean {
  return identify(known.pid)?.startedAt === known.startedAt;
}

/** Sends a signal to exactly this process, or to the group that it leads. False when it is gone. */
export function sendSignal(
  known: ProcessIdentity,
  signal: NodeJS.Signals,
  { toGroup = false }: { readonly toGroup?: boolean } = {},
): boolean {
  if (!isAlive(known)) return false;
  try {
    if (toGroup) killGroup(known.pid, signal);
    process.kill(known.pid, signal);
    return true;
  } catch {
    return false;
  }
}

function killGroup(leader: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-leader, signal);
  } catch {
    // It leads no group.
  }
}

/** Returns true if the process was started with this variable; undefined if the system does not report it. */
export function hasEnvironment(pid: number, name: string, value: string): boolean | undefined {
  try {
    return readFileSync(`/proc/${pid}/environ`, "utf8").split("\0").includes(`${name}=${value}`);
  } catch {
    // Our own children can always be read: on Linux this process has ended or is foreign.
    return isLinux ? false : undefined;
  }
}

/** Memory that cannot be given back (anonymous and shared), without the mapped weights; undefined where unknown. */
export function heldBytes(pid: number): number | undefined {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "utf8");
    const kib = [...status.matchAll(/^Rss(?:Anon|Shmem):\s+(\d+) kB$/gm)].map((match) => Number(match[1]));
    return kib.length === 0 ? undefined : kib.reduce((sum, one) => sum + one, 0) * 1024;
  } catch {
    return undefined;
  }
}

function startOnLinux(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The name in parentheses may hold spaces; the fields after it are state (0) and start time in clock ticks (19).
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    if (fields[0] === "Z" || fields[0] === "X") return undefined;
    return `${bootId()}:${fields[19]}`;
  } catch {
    return undefined;
  }
}

function startElsewhere(pid: number): string | undefined {
  try {
    const line = execFileSync("ps", ["-o", "stat=,lstart=", "-p", String(pid)], { encoding: "utf8", timeout: 5_000 });
    const [state = "", ...start] = line.trim().split(/\s+/);
    return state === "" || state.startsWith("Z") ? undefined : start.join(" ");
  } catch {
    return undefined;
  }
}

const bootId = () => readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
