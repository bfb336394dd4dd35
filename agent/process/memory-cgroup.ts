// Limits the memory of a process with control groups, where this agent may create them: version 2 if the controller is
// delegated to it, version 1 if its folder is writable. Otherwise runtime-process.ts polls the memory.
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export interface MemoryCgroups {
  readonly version: 1 | 2;
  /** A fresh group with this limit; a process joins it by writing its pid into `cgroup.procs`. Undefined: it cannot be made. */
  make(name: string, limitBytes: number): string | undefined;
}

const mount = "/sys/fs/cgroup";

/** Undefined where the system lets this process make none. */
export function findMemoryCgroups(): MemoryCgroups | undefined {
  const own = attempt(() => readFileSync("/proc/self/cgroup", "utf8")) ?? "";
  const version = existsSync(join(mount, "cgroup.controllers")) ? 2 : 1;
  const pattern = version === 2 ? /^0::(.*)$/m : /^\d+:(?:[^:]*,)?memory(?:,[^:]*)?:(.*)$/m;
  const path = pattern.exec(own)?.[1];
  if (path === undefined) return undefined;
  const root = version === 2 ? mount : join(mount, "memory");
  // Inside a container the path may be the host's, of which nothing is to be seen here.
  const base = existsSync(join(root, path)) ? join(root, path) : root;
  const found: MemoryCgroups = {
    version,
    make: (name, limitBytes) => attempt(() => make(join(base, name), version, limitBytes)),
  };
  if (version === 2 && !isHandedDown(base)) return undefined;
  const trial = found.make(`stoker-trial-${process.pid}`, 64 * 1024 * 1024);
  if (trial === undefined) return undefined;
  removeCgroup(trial);
  return found;
}

/** Returns true if the kernel killed a process in it for its memory. */
export function hasOomKilled(group: string): boolean {
  const events = ["memory.events", "memory.oom_control"].map((name) =>
    attempt(() => readFileSync(join(group, name), "utf8")),
  );
  return /^oom_kill [1-9]/m.test(events.join("\n"));
}

export function membersOf(group: string): readonly number[] {
  const text = attempt(() => readFileSync(join(group, "cgroup.procs"), "utf8")) ?? "";
  return text.split("\n").filter(Boolean).map(Number);
}

/** Only an empty one goes. */
export function removeCgroup(group: string): void {
  attempt(() => rmdirSync(group));
}

function make(group: string, version: 1 | 2, limitBytes: number): string {
  // Counters of an earlier process would report its kills.
  removeCgroup(group);
  mkdirSync(group);
  const set = (name: string, value: number): void => writeFileSync(join(group, name), String(value));
  if (version === 2) {
    set("memory.max", limitBytes);
    attempt(() => set("memory.swap.max", 0));
  } else {
    set("memory.limit_in_bytes", limitBytes);
    // Memory and swap together; kernels without swap accounting have no such file.
    attempt(() => set("memory.memsw.limit_in_bytes", limitBytes));
  }
  return group;
}

function isHandedDown(base: string): boolean {
  const control = join(base, "cgroup.subtree_control");
  const has = () =>
    attempt(() => readFileSync(control, "utf8"))
      ?.split(/\s+/)
      .includes("memory") ?? false;
  if (!has()) attempt(() => writeFileSync(control, "+memory"));
  return has();
}

function attempt<T>(act: () => T): T | undefined {
  try {
    return act();
  } catch {
    return undefined;
  }
}
