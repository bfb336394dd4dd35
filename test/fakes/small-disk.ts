// A file system of a few megabytes that a test may fill (F8). Only root may mount one.
import { execFileSync } from "node:child_process";
import { closeSync, mkdtempSync, openSync, rmdirSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface SmallDisk {
  readonly folder: string;
  /** To its last byte; again, what became free in the meantime. */
  fill(): void;
  /** What filled it is gone. */
  free(): void;
  unmount(): void;
}

/** Undefined, told aloud, where none can be mounted. */
export function mountSmallDisk(megabytes: number, unproven: string): SmallDisk | undefined {
  const folder = mkdtempSync(join(tmpdir(), "stoker-small-disk-"));
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", `size=${megabytes}m`, "tmpfs", folder], { stdio: "pipe" });
  } catch (error) {
    rmdirSync(folder);
    console.warn(
      `NOT PROVEN here, since no small disk can be mounted (${(error as Error).message.trim()}): ${unproven}`,
    );
    return undefined;
  }
  const filler = join(folder, "filler");
  const block = Buffer.alloc(2 ** 20);
  return {
    folder,
    fill() {
      const file = openSync(filler, "a");
      try {
        // Write until the disk refuses: others write to it too, so the free space read beforehand may be wrong.
        for (;;) writeSync(file, block);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
      } finally {
        closeSync(file);
      }
    },
    free: () => rmSync(filler, { force: true }),
    unmount() {
      // Lazily: a database thread may still hold a file of it.
      execFileSync("umount", ["--lazy", folder]);
      rmdirSync(folder);
    },
  };
}
