// A host that cannot write down what it serves admits nothing (ingress refusal `spool`). It says so wherever the host is shown.
import type { UsageSpool } from "../ingress/spool.ts";

type Spool = Pick<UsageSpool, "isWritable">;

/** For operators; empty while records can be written. */
export function recordTrouble(spool: Spool): string {
  if (spool.isWritable) return "";
  return "it cannot write usage records, so it admits no request: its disk is full or takes no writes. Make room on the disk of the agent's data folder, or mend it; the host goes on by itself, and its agent's log has the error";
}

/** True once after each change: the inventory is to be read again. */
export function recordTroubleChanges(spool: Spool): () => boolean {
  let wasWritable = true;
  return () => {
    const hasChanged = spool.isWritable !== wasWritable;
    wasWritable = spool.isWritable;
    return hasChanged;
  };
}
