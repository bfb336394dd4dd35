// Reads the kernel log since boot: /dev/kmsg, or the journal if the device is not readable.
import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { runTool } from "./run-tool.ts";

export interface KernelRecord {
  /** Microseconds since boot. */
  readonly bootUs: number;
  readonly message: string;
}

/** Records that came since the last call, or since boot. Never waits for the next one. Throws when it cannot be read. */
export type KernelLog = ReturnType<typeof openKernelLog>;

const recordBytes = 16 * 1024;
const journalLimitMs = 10_000;
/** A process per look: the journal is asked less often than the device, which costs nothing. */
const journalEveryMs = 30_000;
/** Overlap of two reads: entries are written slightly after the event; one that is read twice is reported once. */
const overlapMs = 60_000;

interface Clocks {
  /** Never set back; ms. */
  readonly steady: () => number;
  /** Wall clock, as in the journal's entries; Unix ms. */
  readonly wall: () => number;
}
const systemClocks: Clocks = { steady: () => performance.now(), wall: () => Date.now() };

export function openKernelLog(path = "/dev/kmsg", journal = "journalctl", clocks = systemClocks) {
  let file: FileHandle | undefined;
  let lastRead: { readonly steadyMs: number; readonly wallMs: number } | undefined;
  let lastTry: { readonly steadyMs: number; readonly failure: Error | undefined } | undefined;
  let newestUs = Number.NEGATIVE_INFINITY;
  let isUnreadable = false;

  /** One read of the device is one record; without a record it answers EAGAIN, for a lost one EPIPE. */
  async function readDevice(): Promise<KernelRecord[]> {
    file ??= await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const buffer = Buffer.alloc(recordBytes);
    const records: KernelRecord[] = [];
    for (;;) {
      try {
        const { bytesRead } = await file.read(buffer, 0, recordBytes, null);
        if (bytesRead === 0) return records;
        records.push(...parseKmsg(buffer.toString("utf8", 0, bytesRead)));
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException;
        if (code === "EAGAIN") return records;
        if (code !== "EPIPE") throw error;
      }
    }
  }

  async function readJournal(signal: AbortSignal): Promise<readonly KernelRecord[]> {
    const begun = { steadyMs: clocks.steady(), wallMs: clocks.wall() };
    if (lastTry && begun.steadyMs - lastTry.steadyMs < journalEveryMs) {
      if (lastTry.failure) throw lastTry.failure;
      return [];
    }
    const args = ["--dmesg", "--boot", "--output=json", "--no-pager", "--grep=NVRM: Xid", ...since(begun)];
    const end = await runTool(journal, args, journalLimitMs, signal);
    // With --grep an empty answer is exit status 1, in words or without.
    const isEmpty = end.kind === "failed" && /No entries|ended with 1$/.test(end.reason);
    if (end.kind !== "ok" && !isEmpty) {
      const failure = new Error(
        `neither ${path} nor the journal can be read: run the agent as root or give it CAP_SYSLOG`,
      );
      lastTry = { steadyMs: begun.steadyMs, failure };
      throw failure;
    }
    lastTry = { steadyMs: begun.steadyMs, failure: undefined };
    lastRead = begun;
    const records = end.kind === "ok" ? parseJournal(end.output).filter(({ bootUs }) => bootUs > newestUs) : [];
    newestUs = records.reduce((newest, { bootUs }) => Math.max(newest, bootUs), newestUs);
    return records;
  }

  /** Without a bound the whole boot is searched: at first, and after the wall's clock was set. */
  function since(now: { readonly steadyMs: number; readonly wallMs: number }): string[] {
    if (!lastRead) return [];
    const setByMs = now.wallMs - lastRead.wallMs - (now.steadyMs - lastRead.steadyMs);
    if (Math.abs(setByMs) > overlapMs / 2) return [];
    return [`--since=@${Math.floor((lastRead.wallMs - overlapMs) / 1000)}`];
  }

  return {
    async read(signal: AbortSignal) {
      if (!isUnreadable) {
        try {
          return await readDevice();
        } catch {
          isUnreadable = true;
        }
      }
      return readJournal(signal);
    },
    async close() {
      await file?.close();
    },
  };
}

/** `6,1234,567890,-;text` and, in lines that begin with a space, what device it is about. */
export function parseKmsg(text: string): KernelRecord[] {
  return text.split("\n").flatMap((line) => {
    const found = /^\d+,\d+,(\d+),[^;]*;(.*)$/.exec(line);
    return found ? [{ bootUs: Number(found[1]), message: found[2] ?? "" }] : [];
  });
}

export function parseJournal(text: string): KernelRecord[] {
  return text.split("\n").flatMap((line) => {
    try {
      const entry = JSON.parse(line) as Record<string, unknown>;
      const bootUs = Number(entry["_SOURCE_MONOTONIC_TIMESTAMP"] ?? entry["__MONOTONIC_TIMESTAMP"]);
      return typeof entry["MESSAGE"] === "string" ? [{ bootUs, message: entry["MESSAGE"] }] : [];
    } catch {
      return [];
    }
  });
}
