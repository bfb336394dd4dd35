// Reads the Xid errors of this boot from the kernel log periodically.
import type { Logger } from "pino";
import type { KernelLog } from "./kernel-log.ts";
import { meaningOf, parseXid, type Xid } from "./xid.ts";

export interface XidWatch {
  /** Reads new errors. Returns true if one is fatal. Rejects only with the signal's reason. */
  look(signal: AbortSignal): Promise<boolean>;
  /** In order; the newest thousand. */
  readonly xids: readonly Xid[];
  /** Reason for which the log cannot be read; empty while it can. */
  readonly trouble: string;
}

const most = 1_000;

export function createXidWatch(source: Pick<KernelLog, "read">, log: Logger): XidWatch {
  let xids: readonly Xid[] = [];
  let trouble = "";
  return {
    get xids() {
      return xids;
    },
    get trouble() {
      return trouble;
    },
    async look(signal) {
      try {
        const records = await source.read(signal);
        trouble = "";
        const found = records.flatMap(({ message, bootUs }) => parseXid(message, bootUs) ?? []);
        xids = [...xids, ...found].slice(-most);
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
