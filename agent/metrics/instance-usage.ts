// Resource usage of one instance, from the control groups of its container (both layouts) or, for a child process, from /proc.
// Reads files alone: no engine is asked.
import { lstat, opendir, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

export interface InstanceUsage {
  /** Path of the control group, or `/process/<pid>`. */
  readonly id: string;
  readonly cpuSeconds?: number;
  readonly memoryBytes?: number;
  /** Without file pages that can be dropped. */
  readonly workingSetBytes?: number;
  /** Absent: no limit. */
  readonly memoryLimitBytes?: number;
  readonly oomEvents?: number;
  readonly pids: readonly number[];
  readonly network: readonly { readonly name: string; readonly receivedBytes: number; readonly sentBytes: number }[];
}

interface UsageRoots {
  readonly cgroup: string;
  readonly proc: string;
}

const roots: UsageRoots = { cgroup: "/sys/fs/cgroup", proc: "/proc" };
const clockTicksPerSecond = 100;
const pageBytes = 4096;
const noLimit = 2 ** 60;

/** `identity`: as drivers report it, `<container id>@<start>` or `<pid>@<start>`. Undefined if nothing can be read. */
export async function instanceUsage(identity: string, { cgroup, proc } = roots): Promise<InstanceUsage | undefined> {
  const name = identity.split("@", 1)[0] ?? "";
  if (/^[0-9a-f]{12,64}$/.test(name)) return containerUsage(name, cgroup, proc);
  return /^\d{1,10}$/.test(name) ? processUsage(Number(name), proc) : undefined;
}

async function containerUsage(name: string, root: string, proc: string): Promise<InstanceUsage | undefined> {
  const isUnified = (await text(join(root, "cgroup.controllers"))) !== undefined;
  const found = await findGroup(isUnified ? root : join(root, "memory"), name);
  if (found === undefined) return undefined;
  const usage = isUnified ? await unified(join(root, found)) : await separate(root, found);
  const pids = numbersIn(await text(join(root, isUnified ? "" : "memory", found, "cgroup.procs")));
  return { id: `/${found}`, ...usage, pids, network: await interfaces(proc, pids[0]) };
}

/** Paths of engines' containers, with the cgroupfs and the systemd driver. */
async function findGroup(root: string, name: string): Promise<string | undefined> {
  for (const [parent, prefix] of [
    ["docker", ""],
    ["system.slice", "docker-"],
  ] as const) {
    const entries = await readdir(join(root, parent)).catch(() => []);
    const entry = entries.find((one) => one.startsWith(prefix + name));
    if (entry !== undefined) return `${parent}/${entry}`;
  }
  return undefined;
}

async function unified(group: string): Promise<Partial<InstanceUsage>> {
  const [memory, limit, stat, cpu, events] = await Promise.all(
    ["memory.current", "memory.max", "memory.stat", "cpu.stat", "memory.events"].map((file) => text(join(group, file))),
  );
  return figures({
    cpuSeconds: scaled(field(cpu, "usage_usec"), 1e-6),
    memoryBytes: whole(memory),
    inactive: field(stat, "inactive_file"),
    limit: whole(limit),
    oomEvents: field(events, "oom_kill"),
  });
}

async function separate(root: string, group: string): Promise<Partial<InstanceUsage>> {
  const memory = join(root, "memory", group);
  const [usage, limit, stat, control, cpu] = await Promise.all(
    [
      join(memory, "memory.usage_in_bytes"),
      join(memory, "memory.limit_in_bytes"),
      join(memory, "memory.stat"),
      join(memory, "memory.oom_control"),
      join(root, "cpuacct", group, "cpuacct.usage"),
    ].map(text),
  );
  return figures({
    cpuSeconds: scaled(whole(cpu), 1e-9),
    memoryBytes: whole(usage),
    inactive: field(stat, "total_inactive_file"),
    limit: whole(limit),
    oomEvents: field(control, "oom_kill"),
  });
}

async function processUsage(pid: number, proc: string): Promise<InstanceUsage | undefined> {
  const stat = await text(join(proc, String(pid), "stat"));
  if (stat === undefined) return undefined;
  // The name in parentheses may hold spaces; user and system time are the 12th and 13th field after it, the resident set the 22nd.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const [user, system, pages] = [Number(fields[11]), Number(fields[12]), Number(fields[21])];
  return {
    id: `/process/${pid}`,
    cpuSeconds: (user + system) / clockTicksPerSecond,
    memoryBytes: pages * pageBytes,
    workingSetBytes: pages * pageBytes,
    pids: [pid],
    // It shares the host's network, so its bytes are unknown.
    network: [],
  };
}

function figures(read: {
  readonly cpuSeconds: number | undefined;
  readonly memoryBytes: number | undefined;
  readonly inactive: number | undefined;
  readonly limit: number | undefined;
  readonly oomEvents: number | undefined;
}): Partial<InstanceUsage> {
  const { cpuSeconds, memoryBytes, oomEvents, limit } = read;
  return {
    ...(cpuSeconds === undefined ? {} : { cpuSeconds }),
    ...(memoryBytes === undefined
      ? {}
      : { memoryBytes, workingSetBytes: Math.max(0, memoryBytes - (read.inactive ?? 0)) }),
    ...(limit === undefined || limit >= noLimit ? {} : { memoryLimitBytes: limit }),
    ...(oomEvents === undefined ? {} : { oomEvents }),
  };
}

async function interfaces(proc: string, pid: number | undefined): Promise<InstanceUsage["network"]> {
  const table = pid === undefined ? undefined : await text(join(proc, String(pid), "net/dev"));
  return (table ?? "").split("\n").flatMap((line) => {
    const [name, counts] = line.split(":");
    const cells = counts?.trim().split(/\s+/).map(Number) ?? [];
    if (name === undefined || cells.length < 16 || name.trim() === "lo") return [];
    return [{ name: name.trim(), receivedBytes: cells[0] ?? 0, sentBytes: cells[8] ?? 0 }];
  });
}

const text = (path: string): Promise<string | undefined> => readFile(path, "utf8").catch(() => undefined);
const numbersIn = (lines: string | undefined) => (lines ?? "").split("\n").filter(Boolean).map(Number);
const scaled = (value: number | undefined, by: number) => (value === undefined ? undefined : value * by);

function whole(content: string | undefined): number | undefined {
  return content !== undefined && /^\d+\s*$/.test(content) ? Number(content) : undefined;
}

function field(content: string | undefined, name: string): number | undefined {
  const found = new RegExp(`^${name} (\\d+)$`, "m").exec(content ?? "")?.[1];
  return found === undefined ? undefined : Number(found);
}

/** Maximum number of counted files: a count that takes minutes would be stale. */
const maxFiles = 50_000;
const blockBytes = 512;

/**
 * Bytes that a container has written into its own layer, counted in the upper directory of its root: the engine would count all it
 * has, while others wait for it. Links are not followed. `pid`: any of its processes. Undefined where the layer cannot be seen from here, or holds too many files.
 */
export async function writtenBytes(pid: number, signal: AbortSignal, proc = "/proc"): Promise<number | undefined> {
  const mounts = await readFile(join(proc, String(pid), "mountinfo"), "utf8").catch(() => "");
  const folder = upperOf(mounts);
  if (folder === undefined) return undefined;
  let bytes = 0;
  let files = 0;
  const folders = [folder];
  for (let next = folders.pop(); next !== undefined; next = folders.pop()) {
    const entries = await opendir(next).catch(() => undefined);
    if (!entries && next === folder) return undefined;
    for await (const entry of entries ?? []) {
      if (signal.aborted || ++files > maxFiles) return undefined;
      const path = join(next, entry.name);
      // Removed in the meantime: it uses no space.
      bytes += (await lstat(path).catch(() => undefined))?.blocks ?? 0;
      if (entry.isDirectory()) folders.push(path);
    }
  }
  return bytes * blockBytes;
}

function upperOf(mounts: string): string | undefined {
  for (const line of mounts.split("\n")) {
    const [own = "", shared = ""] = line.split(" - ");
    const [type, , ...options] = shared.split(" ");
    if (own.split(" ")[4] !== "/" || type !== "overlay") continue;
    const upper = /(?:^|,)upperdir=([^,]+)/.exec(options.join(" "))?.[1];
    return upper?.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));
  }
  return undefined;
}
