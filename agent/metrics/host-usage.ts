// Load of the whole machine.
import { readFile } from "node:fs/promises";
import { cpus, freemem, totalmem } from "node:os";
import { diskSpace } from "../../proto/disk-space.ts";

export interface HostUsage {
  /** 0..1 over all cores, since the reading before. */
  readonly cpuRatio: number;
  readonly memoryUsedBytes: number;
  readonly memoryTotalBytes: number;
  readonly diskFreeBytes: number;
  readonly diskTotalBytes: number;
}

export function hostUsage(folder: string): () => Promise<HostUsage> {
  let before = ticks();
  return async () => {
    const now = ticks();
    const [busy, all] = [now.busy - before.busy, now.all - before.all];
    if (all > 0) before = now;
    const { totalBytes, freeBytes } = await diskSpace(folder);
    return {
      cpuRatio: all > 0 ? Math.min(1, Math.max(0, busy / all)) : 0,
      memoryUsedBytes: totalmem() - (await availableBytes()),
      memoryTotalBytes: totalmem(),
      diskFreeBytes: freeBytes,
      diskTotalBytes: totalBytes,
    };
  };
}

function ticks(): { readonly busy: number; readonly all: number } {
  let [busy, all] = [0, 0];
  for (const { times } of cpus()) {
    const sum = times.user + times.nice + times.sys + times.idle + times.irq;
    all += sum;
    busy += sum - times.idle;
  }
  return { busy, all };
}

/** Memory available to programs: file caches count as free. */
async function availableBytes(): Promise<number> {
  const found = /^MemAvailable:\s+(\d+) kB$/m.exec(await readFile("/proc/meminfo", "utf8").catch(() => ""));
  return found ? Number(found[1]) * 1024 : freemem();
}
