import { type StatsFs, statfsSync } from "node:fs";
import { statfs } from "node:fs/promises";

/** Bytes of a volume. `freeBytes`: what this user may still write. */
export interface DiskSpace {
  readonly totalBytes: number;
  readonly freeBytes: number;
}

const spaceOf = ({ blocks, bavail, bsize }: StatsFs): DiskSpace => ({
  totalBytes: blocks * bsize,
  freeBytes: bavail * bsize,
});

/** Space of the volume that holds `folder`. Rejects if the folder does not exist. */
export const diskSpace = async (folder: string): Promise<DiskSpace> => spaceOf(await statfs(folder));

/** `diskSpace` for code that must not wait. Throws if the folder does not exist. */
export const diskSpaceSync = (folder: string): DiskSpace => spaceOf(statfsSync(folder));

/** True for an error of the operating system, or of a program that passes its text on, because a disk or a quota is full. */
export function isDiskFull(error: unknown): boolean {
  const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown };
  return code === "ENOSPC" || code === "EDQUOT" || /no space left on device|disk quota exceeded/i.test(String(message));
}
