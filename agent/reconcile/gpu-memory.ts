// The memory of a GPU is free some time after the process that held it ended, or not at all. A model that is started into
// what is left fails in ways that say nothing of the cause, so the start waits, says for what, and gives up with the reason.
export interface GpuMemory {
  readonly uuid: string;
  readonly memoryUsedBytes?: number;
  readonly memoryTotalBytes?: number;
  readonly processes: readonly { readonly pid: number; readonly name: string }[];
}

/** Of all GPUs of this host; empty where none can be asked. */
export type ReadGpuMemory = (signal: AbortSignal) => Promise<readonly GpuMemory[]>;

export interface FreeMemory {
  readonly read: ReadGpuMemory;
  readonly limitMs: number;
  readonly everyMs: number;
}

/** Of a GPU that one instance has for itself; the rest is what drivers and displays hold for themselves. */
const freeShare = 0.75;
const gib = 1024 ** 3;

/**
 * What still holds memory of these GPUs, in a sentence; undefined once they are free, or nobody can say. `sharedBytes`: of the
 * one GPU that others of the account use too; 0: nobody else may be there.
 */
export async function heldMemory(
  uuids: readonly string[],
  read: ReadGpuMemory,
  signal: AbortSignal,
  sharedBytes = 0,
): Promise<string | undefined> {
  // A host whose tool does not answer must still start what it can: the engine itself says it then.
  const found = await read(signal).catch(() => []);
  signal.throwIfAborted();
  const held = found.flatMap((gpu) => {
    const { uuid, memoryUsedBytes: used, memoryTotalBytes: total, processes } = gpu;
    if (!uuids.includes(uuid) || used === undefined || !total) return [];
    if (total - used >= freeShare * (sharedBytes || total)) return [];
    const by = processes.map(({ pid, name }) => `process ${pid} (${name})`).join(", ");
    return [`${uuid} still holds ${tenths(used)} of ${tenths(total)} GiB${by === "" ? "" : `, by ${by}`}`];
  });
  return held.length === 0 ? undefined : held.join("; ");
}

/** Undefined once the GPUs are free; else what held them to the end. `onWait` is told before each pause. */
export async function untilFree(
  uuids: readonly string[],
  free: FreeMemory,
  pause: (ms: number, signal: AbortSignal) => Promise<void>,
  onWait: (held: string) => void,
  signal: AbortSignal,
  sharedBytes = 0,
): Promise<string | undefined> {
  for (let waitedMs = 0; ; waitedMs += free.everyMs) {
    const held = await heldMemory(uuids, free.read, signal, sharedBytes);
    if (held === undefined || waitedMs >= free.limitMs) return held;
    onWait(held);
    await pause(free.everyMs, signal);
    signal.throwIfAborted();
  }
}

const tenths = (bytes: number) => (bytes / gib).toFixed(1);
