// Backup and restore of instance volumes. INVARIANTS: one operation per volume at a time; a backup is a snapshot (its container
// is frozen during the copy); a restore changes the volume only by the swap, after the checksum was verified; an interrupted
// operation leaves the old content and temporary files, which the next start removes.

import { statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Logger } from "pino";
import { type Digest, packFolder, unpackInto } from "./archive.ts";
import { asBackupError, BackupError } from "./backup-error.ts";
import type { BlobStore } from "./blob-store.ts";
import type { Volumes } from "./volume.ts";

export interface VolumeUsers {
  /** Runs `work` while every process on the volume is frozen; at once when there is none. */
  frozen<T>(volume: string, work: () => Promise<T>, signal: AbortSignal): Promise<T>;
  /** Runs `work` with no process on the volume; instances that ran before start again afterwards, also when `work` failed. */
  ended<T>(volume: string, work: () => Promise<T>, signal: AbortSignal): Promise<T>;
  /** Resumes containers that a killed agent left frozen. */
  thawAll(signal: AbortSignal): Promise<void>;
}

export type Backups = ReturnType<typeof createBackups>;

interface BackupsDeps {
  readonly volumes: Volumes;
  readonly blobs: BlobStore;
  readonly users: VolumeUsers;
  readonly done?: (op: "create" | "restore", seconds: number) => void;
  readonly log: Logger;
}

export function createBackups({ volumes, blobs, users, done, log }: BackupsDeps) {
  const busy = new Set<string>();
  const running = new Set<Promise<unknown>>();
  const ending = new AbortController();
  type Work<T> = (signal: AbortSignal) => Promise<T>;

  function alone<T>(what: string, volume: string, given: AbortSignal, work: Work<T>): Promise<T> {
    const own = perform(what, volume, () => {
      ending.signal.throwIfAborted();
      return work(AbortSignal.any([given, ending.signal]));
    });
    running.add(own);
    const forget = () => running.delete(own);
    own.then(forget, forget);
    return own;
  }

  async function perform<T>(what: string, volume: string, work: () => Promise<T>): Promise<T> {
    if (busy.has(volume))
      throw new BackupError("busy", "Another backup or restore of this instance runs; wait for its end.");
    busy.add(volume);
    const beganMs = performance.now();
    try {
      const result = await work();
      const op = measured[what];
      if (op) done?.(op, (performance.now() - beganMs) / 1000);
      log.info({ volume, ms: Math.round(performance.now() - beganMs) }, `${what} done`);
      return result;
    } catch (error) {
      const fault = ending.signal.aborted ? interruptedBy(error) : asBackupError(error);
      log.warn({ volume, err: fault, ms: Math.round(performance.now() - beganMs) }, `${what} failed`);
      throw fault;
    } finally {
      await swept(volume);
      busy.delete(volume);
    }
  }

  /** Files that cannot be deleted only use space: the next work on the volume and the next start retry. */
  async function swept(volume: string): Promise<void> {
    await volumes
      .sweep(volume)
      .catch((err) => log.warn({ volume, err }, "could not sweep a volume; leftover files use disk space"));
  }

  async function unpacked(volume: string, key: string, expected: Digest, signal: AbortSignal): Promise<string> {
    const staged = await volumes.stage(volume);
    await unpackInto(staged, await blobs.get(key, signal), expected, signal);
    return staged;
  }

  return {
    /** Throws BackupError, as all of these do. */
    backup: (volume: string, key: string, given: AbortSignal) =>
      alone("backup", volume, given, async (signal) => {
        await blobs.sweep(folderOf(key), signal);
        const staged = await volumes.stage(volume);
        await users.frozen(volume, () => volumes.copyTo(volume, staged, signal), signal);
        const { body, digest } = packFolder(staged, signal);
        await blobs.put(key, body, signal);
        return digest();
      }),

    restore: (volume: string, key: string, expected: Digest, given: AbortSignal) =>
      alone("restore", volume, given, async (signal) => {
        const staged = await unpacked(volume, key, expected, signal);
        await users.ended(volume, () => volumes.swap(volume, staged, signal), signal);
      }),

    /** Runs a restore without the swap. */
    tryRestore: (volume: string, key: string, expected: Digest, given: AbortSignal) =>
      alone("trial restore", volume, given, async (signal) => {
        await unpacked(volume, key, expected, signal);
      }),

    removeBackup: (_volume: string, key: string, signal: AbortSignal) => blobs.remove(key, signal),

    removeVolume: (volume: string, given: AbortSignal) =>
      alone("removal of a volume", volume, given, (signal) =>
        users.ended(volume, () => volumes.remove(volume), signal),
      ),

    /** Call once, before anything else. */
    async recover(signal: AbortSignal) {
      try {
        await users.thawAll(signal);
      } finally {
        for (const volume of await volumes.list()) await swept(volume);
      }
    },

    /** Ends running work as `interrupted` and accepts no more, so that a stopping agent leaves no container frozen. */
    async close() {
      ending.abort();
      await Promise.allSettled(running);
    },
  };
}

function interruptedBy(cause: unknown): BackupError {
  return new BackupError(
    "interrupted",
    "The agent of its host was stopped in the middle; nothing was changed. Try again.",
    {
      cause,
    },
  );
}

const measured: Readonly<Record<string, "create" | "restore">> = { backup: "create", restore: "restore" };
const folderOf = (key: string) => key.slice(0, key.lastIndexOf("/"));

export function lastSuccess(folder: string, log: Pick<Logger, "warn">) {
  const file = join(folder, "last-backup");
  return {
    /** Unix seconds; undefined: never, or not recorded. */
    read() {
      const found = statSync(file, { throwIfNoEntry: false });
      return found && found.mtimeMs / 1000;
    },
    /** Records the current time. If the file cannot be written (full disk), the time is lost at the next start. */
    note() {
      try {
        writeFileSync(file, "", { mode: 0o600 });
      } catch (err) {
        log.warn({ err }, "could not store the time of the last backup");
      }
    },
  };
}
