// The port through which the reconciler runs instances. Implemented by docker/, kubernetes/ and process/ (and external/ for servers
// that already run). A driver owns only containers with its labels; ids and generations are its only keys.

import type { Duplex } from "node:stream";
import type { ServerApi } from "../../proto/api-formats.ts";
import type { BearerSecret } from "../../proto/bearer-secret.ts";
import type { DeploymentId, InstanceId } from "../../proto/ids.ts";
import type { TerminalSize } from "../../proto/terminal-tunnel.ts";

/** Container to run: engines/ makes it from an InstanceSpec, pure; the driver adds only isolation. */
export interface ContainerPlan {
  readonly instanceId: InstanceId;
  readonly deployId: DeploymentId;
  /** Generation of the deployment's spec: with the instance id it names the container. */
  readonly generation: number;
  readonly kind: "runtime" | "external" | "rental";
  /** Containers only. */
  readonly image: string;
  /** Containers only: replaces the image's entry point. */
  readonly entrypoint?: readonly string[];
  /** argv after the runtime's entry point (process) or the image's entry point. */
  readonly args: readonly string[];
  /** Process only: another program than the runtime. */
  readonly program?: ProgramPlan;
  /** Paths in it are as seen inside: in a container, `mounts` targets; of a process, the host's own. */
  readonly env: Readonly<Record<string, string>>;
  readonly mounts: readonly { readonly source: string; readonly target: string; readonly readOnly: boolean }[];
  /** Port the engine listens on inside a container; a process is given any free one. */
  readonly port: number;
  readonly memoryBytes: number;
  readonly cpus: number;
  readonly gpuUuids: readonly string[];
  /** Docker only: how the container gets these GPUs; undefined: by NVIDIA's runtime. */
  readonly gpuAccess?:
    | { readonly kind: "cdi"; readonly names: readonly string[] }
    | { readonly kind: "files"; readonly devices: readonly string[]; readonly groups: readonly number[] };
  /** Resources of this host reserved for it, also those that are no device; stored with it. */
  readonly claimedGpus?: readonly string[];
  readonly shmBytes: number;
  /** Limit of the memory for temporary files, if the driver provides one; default: the driver's choice. */
  readonly scratchBytes?: number;
  /** Id of the persistent volume that must exist before the start. */
  readonly volume?: string;
  /** For kind `external`: origin of the server that already runs. */
  readonly externalUrl?: string;
  /** For kind `external`: credentials that the server requires; undefined: none. */
  readonly secret?: BearerSecret;
  /** For kind `external`; default: openai. */
  readonly api?: ServerApi;
  /** For kind `rental`. */
  readonly rental?: {
    readonly sshKeys: readonly string[];
    /** Script that runs once in the new container, as root; empty: none. */
    readonly firstStart: string;
  };
}

interface ProgramPlan {
  /** Absolute path and arguments. */
  readonly argv: readonly string[];
  /** Precedes the port that the driver chooses, after `argv`. */
  readonly portFlag: string;
  /** Environment variable in which it expects the secret that every request must carry. */
  readonly secretVariable: string;
}

export type Observed = {
  readonly instanceId: InstanceId;
  readonly deployId: DeploymentId;
  readonly generation: number;
  /** As its plan claimed them; undefined if an earlier version stored none. */
  readonly claimedGpus?: readonly string[];
} & (
  | {
      readonly state: "starting";
      readonly identity: string;
      /** Reason for which it does not run yet, for the customer; undefined: none is known. */
      readonly waitingFor?: string | undefined;
      /** Step of the start, from 0: only a later step is progress, because reasons can alternate without end. */
      readonly step?: number | undefined;
    }
  | {
      readonly state: "running";
      readonly origin: string;
      /** Credentials that the engine requires for every request; undefined: none. */
      readonly secret?: BearerSecret | undefined;
      readonly api?: ServerApi | undefined;
      /** pid@starttime or container id: stable over an agent restart, new after every start. */
      readonly identity: string;
      readonly startedAtMs: number;
      /** Others than this agent are ending it: it finishes what it does and gets nothing new. */
      readonly isLeaving?: boolean;
      /** Address of its SSH server for customers; its origin is then `ssh://address:port`. */
      readonly ssh?: { readonly address: string; readonly port: number };
    }
  | {
      readonly state: "exited";
      readonly identity: string;
      /** Undefined when a signal ended it or its status could not be read. */
      readonly exitCode: number | undefined;
      readonly signal: string | undefined;
      readonly oomKilled: boolean;
      readonly finishedAtMs: number;
      /** Why others than the server itself ended it; undefined: they did not, or it is unknown. */
      readonly endedBy?: { readonly code: string; readonly message: string } | undefined;
    }
);

export const driverErrorCodes = [
  "image_missing",
  "image_forbidden",
  "image_corrupt",
  "image_unreachable",
  "gpu_runtime_missing",
  "no_space",
  "port_in_use",
  "engine_away",
  "quota_exceeded",
  "no_shell",
  "start_failed",
] as const;
type DriverErrorCode = (typeof driverErrorCodes)[number];

/** A driver call that failed with a reason for the customer; `retryable` false ends the instance as failed. */
export class DriverError extends Error {
  readonly code: DriverErrorCode;
  readonly retryable: boolean;
  constructor(code: DriverErrorCode, message: string, options: { retryable: boolean; cause?: unknown }) {
    super(message, { cause: options.cause });
    this.name = "DriverError";
    this.code = code;
    this.retryable = options.retryable;
  }
}

export interface LogLine {
  /** Unix seconds with nanoseconds as text, e.g. `1682343934.123456789`. */
  readonly at: string;
  readonly line: string;
}

export interface LogRange {
  readonly fromMs?: number;
  /** Same time in nanoseconds, in the format of log lines. */
  readonly fromAt?: string;
  readonly toMs?: number;
  readonly limit: number;
}

/** A shell in a container, with a terminal of its own. */
export interface Shell {
  /** What is typed and what is printed. Ends when the shell does. */
  readonly stream: Duplex;
  resize(size: TerminalSize): Promise<void>;
  /** Exit code of the shell, once its stream has ended; null: unknown. */
  exitCode(): Promise<number | null>;
  /** Ends the shell and everything that it started in its session. No-op when it has ended. Must not reject. */
  end(): Promise<void>;
}

export interface ContainerDriver {
  readonly name: "docker" | "kubernetes" | "process" | "external";
  /** Returns everything this driver owns on this host, running or not, also if an earlier agent started it. */
  list(signal: AbortSignal): Promise<readonly Observed[]>;
  /**
   * Pulls the plan's image; resolves at once if it is here, or if the driver uses no images. `onProgress` in bytes; the total
   * grows while the parts become known. Throws DriverError `image_missing`, `image_forbidden`, `image_corrupt`,
   * `image_unreachable`.
   */
  pull(plan: ContainerPlan, onProgress: (done: number, total: number) => void, signal: AbortSignal): Promise<void>;
  /** Idempotent by (instanceId, generation): a second start of a running one is a no-op. Returns once started, not ready. */
  start(plan: ContainerPlan, signal: AbortSignal): Promise<void>;
  /** SIGTERM, wait up to `graceMs` for a clean end, SIGKILL. Keeps the exited record. No-op when gone. */
  stop(id: InstanceId, graceMs: number, signal: AbortSignal): Promise<void>;
  /** Removes the exited instance with its logs, volume and network. No-op when gone. */
  remove(id: InstanceId, signal: AbortSignal): Promise<void>;
  /** Ascending by time; secrets redacted; the last `limit` lines unless only `fromMs` is given. */
  logs(id: InstanceId, range: LogRange, signal: AbortSignal): Promise<readonly LogLine[]>;
  /**
   * Starts a shell in the running container of an instance. Absent: this driver has no terminals. Undefined: no such container
   * runs. Throws DriverError `no_shell`, or when its container is frozen.
   */
  openShell?(id: InstanceId, size: TerminalSize, signal: AbortSignal): Promise<Shell | undefined>;
  /** Calls back when something changed by itself (exit, OOM kill): a hint to observe, not the only source. */
  watch(onChange: () => void): void;
  close(): Promise<void>;
}
