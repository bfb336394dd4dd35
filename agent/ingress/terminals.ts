// Shells in containers of this host, each over one connection of a gateway. INVARIANTS: a shell ends when its connection does;
// neither side buffers more than its stream's limit, because each stops reading while the other does not take bytes.
import type { Duplex } from "node:stream";
import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import type { InstanceId } from "../../proto/ids.ts";
import {
  dataFrames,
  exitFrame,
  TerminalFrames,
  type TerminalSize,
  terminalProtocol,
} from "../../proto/terminal-tunnel.ts";
import type { ContainerDriver, DriverError, Shell } from "../reconcile/driver.ts";
import { refuseUpgrade } from "./refuse-upgrade.ts";

export interface TerminalBounds {
  readonly maxPerInstance: number;
  readonly maxPerHost: number;
  readonly openMs: number;
  /** Maximum time without a byte in either direction: a little more than the control plane's. */
  readonly idleMs: number;
  /** Maximum time of a terminal, likewise. */
  readonly totalMs: number;
}

const usualBounds: TerminalBounds = {
  maxPerInstance: 16,
  maxPerHost: 64,
  openMs: 20_000,
  idleMs: 35 * 60_000,
  totalMs: 8 * 3_600_000 + 5 * 60_000,
};

/** For the last shells when the agent stops. */
const closeMs = 5_000;

export type OpenShell = NonNullable<ContainerDriver["openShell"]>;

/** `openShell` undefined: the operator allows no terminals here. */
export function createTerminals(
  openShell: OpenShell | undefined,
  log: Pick<Logger, "info" | "warn">,
  changed: Partial<TerminalBounds> = {},
) {
  const bounds = { ...usualBounds, ...changed };
  /** Opening ones included. */
  const held = new Map<InstanceId, Set<() => Promise<void>>>();
  let allowed: ReadonlySet<InstanceId> = new Set();
  let isClosed = false;

  const count = () => [...held.values()].reduce((sum, one) => sum + one.size, 0);

  function take(id: InstanceId, end: () => Promise<void>): () => void {
    const own = held.get(id) ?? new Set();
    held.set(id, own.add(end));
    return () => {
      own.delete(end);
      if (own.size === 0 && held.get(id) === own) held.delete(id);
    };
  }

  async function start(
    open: OpenShell,
    id: InstanceId,
    size: TerminalSize,
    from: Duplex,
    first: Buffer,
  ): Promise<void> {
    const gone = new AbortController();
    let shell: Shell | undefined;
    let ending: Promise<void> | undefined;
    const end = (): Promise<void> => {
      ending ??= (async () => {
        gone.abort();
        from.destroy();
        await shell?.end();
        release();
      })();
      return ending;
    };
    const release = take(id, end);
    for (const event of ["end", "close"]) from.once(event, () => void end());
    // A closed connection is noticed only while it is read.
    from.resume();
    try {
      const bound = AbortSignal.any([gone.signal, AbortSignal.timeout(bounds.openMs)]);
      shell = await open(id, size, bound);
    } catch (err) {
      const isShellMissing = (err as Partial<DriverError>).code === "no_shell";
      if (!gone.signal.aborted) {
        log.warn({ err, instance: id }, "could not open a terminal");
        refuseUpgrade(from, isShellMissing ? 502 : 503);
      }
      return release();
    }
    if (!shell) {
      refuseUpgrade(from, 404);
      return release();
    }
    // Its connection closed while it started.
    if (gone.signal.aborted) return shell.end();
    from.pause();
    from.write(`HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: ${terminalProtocol}\r\n\r\n`);
    log.info({ instance: id }, "terminal opened");
    join(shell, from, first, bounds, end);
  }

  return {
    /** Refuses with 403, 404, 429, 502 (no shell can be started) or 503. */
    open(id: InstanceId, size: TerminalSize, from: Duplex, first: Buffer): void {
      if (isClosed) refuseUpgrade(from, 503);
      else if (!openShell) refuseUpgrade(from, 403);
      else if (!allowed.has(id)) refuseUpgrade(from, 404);
      else if ((held.get(id)?.size ?? 0) >= bounds.maxPerInstance || count() >= bounds.maxPerHost)
        refuseUpgrade(from, 429);
      else void start(openShell, id, size, from, first);
    },
    /** Instances that may have terminals: rented containers and agent instances. Ends those of all others. */
    allow(ids: ReadonlySet<InstanceId>): void {
      allowed = ids;
      for (const [id, own] of held) if (!ids.has(id)) for (const end of [...own]) void end();
    },
    /** Ends all, and accepts no new ones. */
    async close(): Promise<void> {
      isClosed = true;
      const all = [...held.values()].flatMap((own) => [...own]);
      await Promise.race([Promise.all(all.map((end) => end())), wait(closeMs, undefined, { ref: false })]);
    },
  };
}

/** Passes frames until one side ends. */
function join(shell: Shell, from: Duplex, first: Buffer, bounds: TerminalBounds, end: () => Promise<void>): void {
  const { stream } = shell;
  const frames = new TerminalFrames();
  const resize = latestOnly(shell.resize);
  const idle = setTimeout(() => void end(), bounds.idleMs).unref();
  const total = setTimeout(() => void end(), bounds.totalMs).unref();
  from.once("close", () => {
    clearTimeout(idle);
    clearTimeout(total);
  });
  const receive = (chunk: Buffer): void => {
    idle.refresh();
    try {
      for (const frame of frames.take(chunk)) {
        if (frame.kind === "size") resize(frame.size);
        else if (frame.kind === "data" && stream.writable && !stream.write(frame.bytes)) from.pause();
      }
    } catch {
      void end();
    }
  };
  stream.on("drain", () => from.resume());
  from.on("data", receive);
  stream.on("data", (chunk: Buffer) => {
    idle.refresh();
    if (from.writable && !from.write(dataFrames(chunk))) stream.pause();
  });
  from.on("drain", () => stream.resume());
  let isOver = false;
  const over = async (): Promise<void> => {
    if (isOver) return;
    isOver = true;
    const code = await shell.exitCode().catch(() => null);
    if (from.writable) from.end(exitFrame(code), () => void end());
    else void end();
  };
  stream.once("end", () => void over());
  stream.once("close", () => void over());
  if (first.length > 0) receive(first);
  from.resume();
}

/** Runs one call at a time; of those that arrive in the meantime only the last one. */
function latestOnly(call: (size: TerminalSize) => Promise<void>): (size: TerminalSize) => void {
  let next: TerminalSize | undefined;
  let isRunning = false;
  return (size) => {
    next = size;
    if (isRunning) return;
    isRunning = true;
    void (async () => {
      while (next !== undefined) {
        const wanted = next;
        next = undefined;
        // A shell that has ended has no size.
        await call(wanted).catch(() => {});
      }
      isRunning = false;
    })();
  };
}
