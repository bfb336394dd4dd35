// Persistent volumes of agent instances on this host, and their backups. Only where containers run as another user than the
// agent and the agent may still read what they write: on a Docker engine, as root.

import { readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Logger } from "pino";
import type { HostId } from "../../proto/ids.ts";
import { BackupError } from "../backups/backup-error.ts";
import { type Backups, createBackups } from "../backups/backups.ts";
import type { BlobStore } from "../backups/blob-store.ts";
import { createFilesystemBlobs } from "../backups/filesystem-blobs.ts";
import { createVolumes, type Volumes } from "../backups/volume.ts";
import { volumeCommands } from "../backups/volume-commands.ts";
import type { AgentConfig } from "../config.ts";
import type { Freezer } from "../docker/freeze.ts";
import type { ContainerDriver } from "../reconcile/driver.ts";
import type { Reconciler } from "../reconcile/loop.ts";
import { type CommandExecutor, CommandFailed } from "../session/commands.ts";

/** As which every container runs (docker/model-profile.ts). */
const owner = { uid: 2000, gid: 0 };

type BackupDone = (op: "create" | "restore", seconds: number) => void;

interface HostVolumes {
  readonly folder: string;
  /** Wraps a driver: creates a container's volume before its start, and resumes containers that a backup left frozen. */
  withVolumes(driver: ContainerDriver): ContainerDriver;
  backups(reconciler: () => Pick<Reconciler, "whileEnded">, done: BackupDone): Promise<Backups>;
}

export function hostVolumes(config: AgentConfig, driver: string, hostId: HostId, log: Logger): HostVolumes | undefined {
  if (whyNoVolumes(driver) !== "") return undefined;
  const folder = join(config.dataDir, "volumes");
  const volumes: Volumes = createVolumes(folder);
  let freezer: Freezer | undefined;
  return {
    folder,
    withVolumes: (inner) => ({
      ...inner,
      list(signal) {
        // Not awaited: an engine that does not resume it must not delay the observation.
        void freezer?.wakeLeft();
        return inner.list(signal);
      },
      async start(plan, signal) {
        if (plan.volume !== undefined) await volumes.ensure(plan.volume, owner);
        await inner.start(plan, signal);
      },
    }),
    async backups(reconciler, done) {
      const { createFreezer } = await import("../docker/freeze.ts");
      const made = createFreezer({ nodeName: hostId, log });
      freezer = made;
      const users = {
        ...made,
        ended: <T>(volume: string, work: () => Promise<T>, signal: AbortSignal) =>
          reconciler().whileEnded(volume, work, signal),
      };
      warnOfOneDisk(config, log);
      return createBackups({ volumes, blobs: await blobStore(config, hostId), users, done, log });
    },
  };
}

/** Empty: this host keeps them. */
export function whyNoVolumes(driver: string): string {
  const none = "it keeps no volumes of agent instances: its agent must run as root";
  if (driver !== "docker" || process.getuid?.() !== 0) return `${none} with the Docker driver`;
  const lacking = lackingCapabilities(["CHOWN", "DAC_OVERRIDE", "FOWNER"]);
  return lacking.length === 0 ? "" : `${none} with the capabilities ${lacking.join(", ")} as well`;
}

/** A backup on the disk of its volume is lost with it, and uses the space that usage records need. */
export function isOnOneDisk({ backups, dataDir }: Pick<AgentConfig, "backups" | "dataDir">): boolean {
  const disk = (path: string) => statSync(path, { throwIfNoEntry: false })?.dev;
  if (backups.s3) return false;
  return (disk(backups.folder) ?? disk(dirname(backups.folder)) ?? disk(dataDir)) === disk(dataDir);
}

function warnOfOneDisk(config: AgentConfig, log: Logger): void {
  const { backups } = config;
  if (!isOnOneDisk(config)) return;
  log.warn(
    { folder: backups.folder },
    "backups of volumes lie on the disk of the volumes and of the agent's usage records: set STOKER_BACKUP_DIR to another " +
      "disk, or STOKER_BACKUP_S3_BUCKET",
  );
}

async function blobStore(config: AgentConfig, hostId: HostId): Promise<BlobStore> {
  const { folder, s3 } = config.backups;
  if (!s3) return createFilesystemBlobs(folder, hostId);
  // Only where it is used: the client is large.
  const { createS3Blobs } = await import("../backups/s3-blobs.ts");
  return createS3Blobs({
    ...s3,
    credentials: s3.credentials && {
      accessKeyId: s3.credentials.accessKeyId,
      secretAccessKey: s3.credentials.secretAccessKey.reveal(),
    },
  });
}

/** Executors of the control plane's commands for volumes. Without volumes every command is refused with the reason. */
export function volumeExecutors(backups: Backups | undefined): Readonly<Record<string, CommandExecutor>> {
  if (!backups) return {};
  const commands = Object.entries(volumeCommands(backups));
  return Object.fromEntries(
    commands.map(([kind, carryOut]): [string, CommandExecutor] => [
      kind,
      async (order, signal) => {
        try {
          return await carryOut(order.arguments, signal);
        } catch (error) {
          if (!(error instanceof BackupError)) throw error;
          throw new CommandFailed(error.code, error.message, { cause: error });
        }
      },
    ]),
  );
}

/** Bits of capabilities(7). */
const bits = { CHOWN: 0n, DAC_OVERRIDE: 1n, FOWNER: 3n } as const;

type Capability = keyof typeof bits;

/** `status`: text of /proc/self/status. Nothing lacks where the kernel does not say. */
export function lackingCapabilities(wanted: readonly Capability[], status = ownStatus()): readonly Capability[] {
  const effective = /^CapEff:\s*([0-9a-f]+)$/m.exec(status)?.[1];
  if (effective === undefined) return [];
  return wanted.filter((one) => ((BigInt(`0x${effective}`) >> bits[one]) & 1n) === 0n);
}

function ownStatus(): string {
  try {
    return readFileSync("/proc/self/status", "utf8");
  } catch {
    return "";
  }
}
