// Reserved disk space beside the state file: a file of zeros. When the disk is full, deleting it makes space for the records of
// requests in flight; no request is admitted until the reserve is written again.
import { closeSync, fsyncSync, openSync, rmSync, statSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { diskSpaceSync } from "../../proto/disk-space.ts";

const maxReserveBytes = 4 * 1024 * 1024;
const maxLogBytes = 16 * 1024 * 1024;
const minBytes = 256 * 1024;

/** Share of the volume, within bounds: neither the reserve nor the write-ahead log may fill a small volume. */
function shareOf(path: string, part: number, maxBytes: number): number {
  const { totalBytes } = diskSpaceSync(dirname(path));
  return Math.min(maxBytes, Math.max(minBytes, Math.floor(totalBytes / part)));
}

/** Bytes of write-ahead log after which it is copied into the state file `path`. */
export const maxLogBytesOf = (path: string): number => shareOf(path, 16, maxLogBytes);

/** Maximum bytes of acknowledged records kept beside `path`: `wanted`, or an eighth of a small volume. */
export const maxKeptBytesOf = (path: string, wanted: number): number => shareOf(path, 8, wanted);

export function createDiskReserve(statePath: string) {
  const path = `${statePath}.reserve`;
  const sizeOf = () => statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  const remove = () => rmSync(path, { force: true });
  return {
    /** Creates the reserve if it is missing. Returns false while the disk has no space for it. */
    restore() {
      try {
        const bytes = shareOf(statePath, 8, maxReserveBytes);
        if (sizeOf() === bytes) return true;
        // Require twice the space: the next writes must not use up the reserve at once.
        if (diskSpaceSync(dirname(statePath)).freeBytes < 2 * bytes) return false;
        const file = openSync(path, "w", 0o600);
        try {
          // Written, not only sized: a sparse file reserves nothing.
          for (let left = bytes; left > 0; ) left -= writeSync(file, Buffer.alloc(Math.min(left, minBytes)));
          fsyncSync(file);
        } finally {
          closeSync(file);
        }
        return true;
      } catch {
        remove();
        return false;
      }
    },
    use() {
      const hadSpace = sizeOf() > 0;
      remove();
      return hadSpace;
    },
  };
}
