// The port through which the reconciler runs instances. Implemented by docker/ and process/ (and external/ for servers
// that already run). A driver owns what carries its labels and nothing else; ids and generations are its only keys.
import type { DeploymentId, InstanceId } from "../../proto/ids.ts";

/** What to run: made by engines/ from an InstanceSpec, pure; the driver adds nothing of its own but isolation. */
export interface ContainerPlan {
  readonly instanceId: InstanceId;
  readonly deployId: DeploymentId;
  /** Generation of the deployment's spec: with the instance id it names the container. */
  readonly generation: number;
  readonly kind: "runtime" | "external" | "rental";
  /** Docker only. */
  readonly image: string;
  /** Docker only: what runs instead of the image's entry point. */
  readonly entrypoint?: readonly string[];
  /** argv after the runtime's entry point (process) or the image's entry point (docker). */
  readonly args: readonly string[];
  /** Paths in it are as seen inside: under docker, `mounts` targets; under process, the host's own. */
  readonly env: Readonly<Record<string, string>>;
  readonly mounts: readonly { readonly source: string; readonly target: string; readonly readOnly: boolean }[];
  /** Port the engine listens on inside a container; a process is given any free one. */
  readonly port: number;
  readonly memoryBytes: number;
  readonly cpus: number;
  readonly gpuUuids: readonly string[];
  /** Shares of this host that are its own, also those that are no device; written down with it. */
  readonly claimedGpus?: readonly string[];
  readonly shmBytes: number;
  /** Of the memory that holds temporary files, where the driver gives one; its own choice without it. */
  readonly scratchBytes?: number;
  /** Id of the persistent volume that must be there before the start. */
  readonly volume?: string;
  /** For kind `external`: origin of the server that already runs. */
  readonly externalUrl?: string;
  /** For kind `rental`. */
  readonly rental?: {
    /** Lines of an authorized_keys file. */
    readonly sshKeys: readonly string[];
    /** Carried out once in the fresh container, as root; empty: nothing. */
    readonly firstStart: string;
  };
}

export type Observed = {
  readonly instanceId: InstanceId;
  readonly deployId: DeploymentId;
  readonly generation: number;
  /** As its plan claimed them; undefined where an earlier version wrote none down. */
  readonly claimedGpus?: readonly string[];
} & (
  | { readonly state: "starting"; readonly identity: string }
  | {
      readonly state: "running";
      /** Origin of the engine, e.g. `http://127.0.0.1:41231`. */
      readonly origin: string;
      /** pid@starttime or container id: stable over an agent restart, new after every start. */
      readonly identity: string;
      readonly startedAtMs: number;
      /** Where customers reach its SSH server; its origin is `ssh://address:port` then. */
      readonly ssh?: { readonly address: string; readonly port: number };
    }
  | {
      readonly state: "exited";
      readonly identity: string;
      /** Undefined when a signal ended it or nobody could wait for it. */
      readonly exitCode: number | undefined;
      readonly signal: string | undefined;
      readonly oomKilled: boolean;
      readonly finishedAtMs: number;
    }
);

export type DriverErrorCode =
  | "image_missing"
  | "image_forbidden"
  | "image_corrupt"
  | "image_unreachable"
  | "gpu_runtime_missing"
  | "no_space"
  | "port_in_use"
  | "engine_away"
  | "start_failed";

/** A driver call that failed for a reason worth telling; `retryable` false ends the instance as failed. */
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
  /** The same to the nanosecond, as lines have it. */
  readonly fromAt?: string;
  readonly toMs?: number;
  readonly limit: number;
}

export interface ContainerDriver {
  readonly name: "docker" | "process" | "external";
  /** Everything this driver owns on this host, running or not, also what an earlier agent started. */
  list(signal: AbortSignal): Promise<readonly Observed[]>;
  /**
   * Brings the plan's image to this host; at once done where it is here, or where the driver has none. `onProgress` in bytes; the
   * total grows while the parts become known. Throws DriverError `image_missing`, `image_forbidden`, `image_corrupt`,
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
  /** Calls back when something changed on its own (exit, OOM kill): a hint to look, never the only way to learn. */
  watch(onChange: () => void): void;
  close(): Promise<void>;
}
