// Shells in containers of this host, each over one connection of a gateway. INVARIANTS: a shell ends when its connection does;
// neither side buffers more than its stream's limit, because each stops reading while the other does not take bytes; a container
// whose shells do not end costs terminals of its own account only.
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
  readonly maxPerAccount: number;
  readonly maxPerHost: number;
  /** Shells of one account whose connection ended before they did. */
  readonly maxEndingPerAccount: number;
  readonly openMs: number;
  /** Maximum time without a byte in either direction: a little more than the control plane's. */
  readonly idleMs: number;
  /** Maximum time of a terminal, likewise. */
  readonly totalMs: number;
}

const usualBounds: TerminalBounds = {
  maxPerInstance: 16,
  maxPerAccount: 16,
  maxPerHost: 64,
  maxEndingPerAccount: 16,
  openMs: 20_000,
  idleMs: 35 * 60_000,
  totalMs: 8 * 3_600_000 + 5 * 60_000,
};

/** For the last shells when the agent stops. */
const closeMs = 5_000;

export type OpenShell = NonNullable<ContainerDriver["openShell"]>;

export interface TerminalPlace {
  readonly instance: InstanceId;
  /** Account that opens it. */
  readonly account: string;
}

interface OpenTerminal extends TerminalPlace {
  end(): Promise<void>;
}

/** `openShell` undefined: the operator allows no terminals here. */
export function createTerminals(
  openShell: OpenShell | undefined,
  log: Pick<Logger, "info" | "warn">,
  changed: Partial<TerminalBounds> = {},
) {
  const bounds = { ...usualBounds, ...changed };
  /** Opening ones included, until their connection ends. */
  const held = new Set<OpenTerminal>();
  /** Shells without a connection, by account. */
  const ending = new Map<Promise<void>, string>();
  let allowed: ReadonlySet<InstanceId> = new Set();
  let isClosed = false;

  const isFull = ({ instance, account }: TerminalPlace): boolean => {
    const open = [...held];
    return (
      open.length >= bounds.maxPerHost ||
      open.filter((one) => one.instance === instance).length >= bounds.maxPerInstance ||
      open.filter((one) => one.account === account).length >= bounds.maxPerAccount ||
      [...ending.values()].filter((one) => one === account).length >= bounds.maxEndingPerAccount
    );
  };

  async function start(
    open: OpenShell,
    place: TerminalPlace,
    size: TerminalSize,
    from: Duplex,
    first: Buffer,
  ): Promise<void> {
    const { instance } = place;
    const gone = new AbortController();
    const opening = open(instance, size, AbortSignal.any([gone.signal, AbortSignal.timeout(bounds.openMs)]));
    let ended: Promise<void> | undefined;
    const terminal: OpenTerminal = {
      ...place,
      end() {
        if (ended) return ended;
        held.delete(terminal);
        gone.abort();
        from.destroy();
        const left = opening.then(
          (shell) => shell?.end(),
          () => {},
        );
        ended = left;
        ending.set(left, place.account);
        void left.finally(() => ending.delete(left));
        return left;
      },
    };
    held.add(terminal);
    for (const event of ["end", "close"]) from.once(event, () => void terminal.end());
    // A closed connection is noticed only while it is read.
    from.resume();
    const refuse = (status: 404 | 502 | 503) => {
      held.delete(terminal);
      refuseUpgrade(from, status);
    };
    let shell: Shell | undefined;
    try {
      shell = await opening;
    } catch (err) {
      if (gone.signal.aborted) return;
      log.warn({ err, instance }, "could not open a terminal");
      return refuse((err as Partial<DriverError>).code === "no_shell" ? 502 : 503);
    }
    // Its connection closed while it started.
    if (gone.signal.aborted) return;
    if (!shell) return refuse(404);
    from.pause();
    from.write(`HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: ${terminalProtocol}\r\n\r\n`);
    log.info({ instance }, "terminal opened");
    join(shell, from, first, bounds, terminal.end);
  }

  return {
    /** Refuses with 403, 404, 429, 502 (no shell can be started) or 503. */
    open(place: TerminalPlace, size: TerminalSize, from: Duplex, first: Buffer): void {
      if (isClosed) refuseUpgrade(from, 503);
      else if (!openShell) refuseUpgrade(from, 403);
      else if (!allowed.has(place.instance)) refuseUpgrade(from, 404);
      else if (isFull(place)) refuseUpgrade(from, 429);
      else void start(openShell, place, size, from, first);
    },
    /** Instances that may have terminals: rented containers and agent instances. Ends those of all others. */
    allow(ids: ReadonlySet<InstanceId>): void {
      allowed = ids;
      for (const one of [...held]) if (!ids.has(one.instance)) void one.end();
    },
    /** Ends all, and accepts no new ones. */
    async close(): Promise<void> {
      isClosed = true;
      for (const one of [...held]) void one.end();
      await Promise.race([Promise.all(ending.keys()), wait(closeMs, undefined, { ref: false })]);
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
