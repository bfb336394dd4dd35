// The memory of a GPU becomes free some time after its process ended, or never. A model that starts without enough memory fails
// with unrelated errors, so the start waits, reports the reason, and gives up after a limit.
export interface GpuMemory {
  readonly uuid: string;
  readonly memoryUsedBytes?: number;
  readonly memoryTotalBytes?: number;
  readonly processes: readonly { readonly pid: number; readonly name: string }[];
}

/** Memory of all GPUs of this host; empty if it cannot be read. */
type ReadGpuMemory = (signal: AbortSignal) => Promise<readonly GpuMemory[]>;

export interface FreeMemory {
  readonly read: ReadGpuMemory;
  readonly limitMs: number;
  readonly everyMs: number;
}

/** Share of an exclusive GPU that must be free; drivers and displays use the rest. */
const freeShare = 0.75;
const gib = 1024 ** 3;

/**
 * Returns a sentence that names what still holds memory of these GPUs; undefined once they are free, or if it is unknown.
 * `sharedBytes`: needed on a GPU that other instances of the account use too; 0: the GPU is exclusive.
 */
export async function heldMemory(
  uuids: readonly string[],
  read: ReadGpuMemory,
  signal: AbortSignal,
  sharedBytes = 0,
): Promise<string | undefined> {
  // If the tool does not reply, start anyway: the engine then reports missing memory itself.
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

/** Returns undefined once the GPUs are free, otherwise what held them at the limit. `onWait` is called before each pause. */
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
