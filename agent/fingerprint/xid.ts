// Xid errors: what the NVIDIA driver writes to the kernel log when a GPU or its program fails. Most name a program's own
// mistake; some mean that the GPU must not be used until an operator has checked it.
// Codes and their meaning: NVIDIA's Xid catalogue.
import type { Logger } from "pino";
import type { KernelLog } from "./kernel-log.ts";

export interface Xid {
  /** `0000:3b:00`: domain, bus and device, in lower case. */
  readonly pciAddress: string;
  readonly code: number;
  /** Microseconds since the machine booted: with the boot id it names this very event. */
  readonly bootUs: number;
  readonly text: string;
}

/** Faults and their remedies. A code that is not listed leaves the GPU in use. */
const fatal: ReadonlyMap<number, string> = new Map([
  [46, "the GPU stopped processing; reset it"],
  [48, "a double-bit memory error; reset the GPU, and replace it if it comes again"],
  [62, "its micro-controller halted; reset the GPU"],
  [63, "a memory row was remapped or a page retired; reset the GPU before it is used again"],
  [64, "a memory row could not be remapped; replace the GPU"],
  [74, "an NVLink error; check the link and reset the GPU"],
  [79, "it has fallen off the bus; power-cycle the host, and check power, cooling and seating"],
  [94, "a contained memory error; reset the GPU"],
  [95, "an uncontained memory error; reset the GPU"],
  [110, "a security fault; power-cycle the host"],
  [119, "its system processor does not answer; reset the GPU"],
  [120, "an error of its system processor; reset the GPU"],
  [140, "an unrecovered memory error; reset the GPU"],
  [143, "it could not be initialised; reset the GPU"],
]);

export function meaningOf(code: number): string | undefined {
  return fatal.get(code);
}

/** `message`: of one kernel log record. Undefined if it contains no Xid. */
export function parseXid(message: string, bootUs: number): Xid | undefined {
  const found = /NVRM: Xid \(PCI:([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})[^)]*\): (\d+)(?:, (.*))?/.exec(
    message,
  );
  if (!found) return undefined;
  return {
    pciAddress: pciAddress(found[1] ?? ""),
    code: Number(found[2]),
    bootUs,
    text: (found[3] ?? "").slice(0, 300),
  };
}

/** `00000000:3B:00.0` as `0000:3b:00`: nvidia-smi and the kernel spell it differently. */
export function pciAddress(text: string): string {
  const [domain = "", bus = "", device = ""] = text.toLowerCase().split(":");
  return `${domain.slice(-4).padStart(4, "0")}:${bus}:${device.replace(/\..*$/, "")}`;
}

export type XidWatch = ReturnType<typeof createXidWatch>;

const max = 1_000;

export function createXidWatch(source: Pick<KernelLog, "read">, log: Logger) {
  let xids: readonly Xid[] = [];
  let trouble = "";
  return {
    /** In order; the newest thousand. */
    get xids() {
      return xids;
    },
    /** Reason for which the log cannot be read; empty while it can. */
    get trouble() {
      return trouble;
    },
    /** Reads new errors. Returns true if one is fatal. Rejects only with the signal's reason. */
    async look(signal: AbortSignal) {
      try {
        const records = await source.read(signal);
        trouble = "";
        const found = records.flatMap(({ message, bootUs }) => parseXid(message, bootUs) ?? []);
        xids = [...xids, ...found].slice(-max);
        for (const xid of found) {
          const isFatal = meaningOf(xid.code) !== undefined;
          log[isFatal ? "error" : "info"](
            { ...(isFatal ? { alert: "gpu_xid" } : {}), ...xid },
            "Xid in the kernel log",
          );
        }
        return found.some(({ code }) => meaningOf(code) !== undefined);
      } catch (error) {
        signal.throwIfAborted();
        trouble = `Xid errors cannot be seen: ${(error as Error).message}`;
        return false;
      }
    },
  };
}
