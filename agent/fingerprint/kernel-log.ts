// Records of the kernel log since the machine booted, for whoever may read them: /dev/kmsg, else the journal.
import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { runTool } from "./run-tool.ts";

export interface KernelRecord {
  /** Microseconds since boot. */
  readonly bootUs: number;
  readonly message: string;
}

/** Records that came since the last call, or since boot. Never waits for the next one. Throws when it cannot be read. */
export interface KernelLog {
  read(signal: AbortSignal): Promise<readonly KernelRecord[]>;
  close(): Promise<void>;
}

const recordBytes = 16 * 1024;
const journalLimitMs = 10_000;

export function openKernelLog(path = "/dev/kmsg", journal = "journalctl"): KernelLog {
  let file: FileHandle | undefined;
  let cursor: string | undefined;
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

  async function readJournal(signal: AbortSignal): Promise<KernelRecord[]> {
    const since = cursor === undefined ? [] : [`--after-cursor=${cursor}`];
    const args = ["--dmesg", "--boot", "--output=json", "--no-pager", "--grep=NVRM: Xid", ...since];
    const end = await runTool(journal, args, journalLimitMs, signal);
    // With --grep an empty answer is exit status 1, in words or without.
    if (end.kind === "failed" && /No entries|ended with 1$/.test(end.reason)) return [];
    if (end.kind !== "ok")
      throw new Error(`neither ${path} nor the journal can be read: run the agent as root or give it CAP_SYSLOG`);
    const { records, last } = parseJournal(end.output);
    cursor = last ?? cursor;
    return records;
  }

  return {
    async read(signal) {
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

export function parseJournal(text: string): { readonly records: KernelRecord[]; readonly last: string | undefined } {
  let last: string | undefined;
  const records = text.split("\n").flatMap((line) => {
    try {
      const entry = JSON.parse(line) as Record<string, unknown>;
      if (typeof entry["__CURSOR"] === "string") last = entry["__CURSOR"];
      const bootUs = Number(entry["_SOURCE_MONOTONIC_TIMESTAMP"] ?? entry["__MONOTONIC_TIMESTAMP"]);
      return typeof entry["MESSAGE"] === "string" ? [{ bootUs, message: entry["MESSAGE"] }] : [];
    } catch {
      return [];
    }
  });
  return { records, last };
}
