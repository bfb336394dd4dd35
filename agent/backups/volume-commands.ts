// Commands of the control plane for volumes: their kinds and the shape of their arguments, which are checked here again.
// Results and refusals are sent as JSON.
import type { Backups } from "./backups.ts";

/** Throws BackupError, or an Error on arguments that no honest control plane sends. The result is sent as JSON. */
type VolumeCommand = (given: unknown, signal: AbortSignal) => Promise<object>;

export function volumeCommands(backups: Backups): Readonly<Record<string, VolumeCommand>> {
  return {
    "volume.backup": async (given, signal) => {
      const { volume, key } = wantOf(given);
      return backups.backup(volume, key, signal);
    },
    "volume.restore": async (given, signal) => {
      const { volume, key, digest } = wantOf(given);
      await backups.restore(volume, key, digest, signal);
      return {};
    },
    "volume.try_restore": async (given, signal) => {
      const { volume, key, digest } = wantOf(given);
      await backups.tryRestore(volume, key, digest, signal);
      return {};
    },
    "volume.remove_backup": async (given, signal) => {
      const { volume, key } = wantOf(given);
      await backups.removeBackup(volume, key, signal);
      return {};
    },
    "volume.remove": async (given, signal) => {
      await backups.removeVolume(wantOf(given).volume, signal);
      return {};
    },
  };
}

function wantOf(given: unknown) {
  const { volume, key, sha256, size_bytes: sizeBytes } = (given ?? {}) as Record<string, unknown>;
  if (typeof volume !== "string" || !/^[\w-]{1,80}$/.test(volume)) throw new Error("the command names no volume");
  const isKey = key === undefined || (typeof key === "string" && key.startsWith(`backups/${volume}/`));
  // A backup of one volume is never restored to another, whatever the control plane sends.
  if (!isKey) throw new Error("the command names a backup of another volume");
  return {
    volume,
    key: String(key ?? ""),
    digest: { sha256: String(sha256 ?? ""), sizeBytes: Number(sizeBytes ?? 0) },
  };
}
