// Commands of the control plane for volumes: their kinds and the shape of their arguments, which are checked here again.
// Results and refusals are sent as JSON.
import type { Backups } from "./backups.ts";

/** Throws BackupError, or an Error on arguments that no honest control plane sends. The result is sent as JSON. */
type VolumeCommand = (given: unknown, signal: AbortSignal) => Promise<unknown>;

export function volumeCommands(backups: Backups): Readonly<Record<string, VolumeCommand>> {
  type Want = ReturnType<typeof wantOf>;
  const command =
    (run: (want: Want, signal: AbortSignal) => Promise<unknown>): VolumeCommand =>
    async (given, signal) =>
      (await run(wantOf(given), signal)) ?? {};
  return {
    "volume.backup": command(({ volume, key }, signal) => backups.backup(volume, key, signal)),
    "volume.restore": command(({ volume, key, digest }, signal) => backups.restore(volume, key, digest, signal)),
    "volume.try_restore": command(({ volume, key, digest }, signal) => backups.tryRestore(volume, key, digest, signal)),
    "volume.remove_backup": command(({ volume, key }, signal) => backups.removeBackup(volume, key, signal)),
    "volume.remove": command(({ volume }, signal) => backups.removeVolume(volume, signal)),
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
