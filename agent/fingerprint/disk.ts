import { statfs } from "node:fs/promises";
import type { Probe } from "./probe.ts";

export interface DiskFacts {
  readonly diskTotalBytes: number;
  /** Bytes available to an unprivileged writer. */
  readonly diskFreeBytes: number;
}

/** The file system that holds `folder`. */
export function diskProbe(folder: string): Probe<DiskFacts> {
  return {
    name: "disk",
    async read() {
      const { blocks, bavail, bsize } = await statfs(folder);
      return { diskTotalBytes: blocks * bsize, diskFreeBytes: bavail * bsize };
    },
  };
}
