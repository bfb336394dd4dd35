// A control plane whose database was restored from a backup requests the acknowledged usage records again.
import type { Logger } from "pino";
import type { SpoolResend, UsageSpool } from "../ingress/spool.ts";
import type { SessionStore } from "./store.ts";

export function createRestoredDatabase(
  store: Pick<SessionStore, "restoreMark" | "sawRestoreMark">,
  spool: Pick<UsageSpool, "resend" | "pending">,
  log: Logger,
) {
  let wanted = "";
  let resend: SpoolResend | undefined;
  let isDone = false;

  async function begin(id: string): Promise<void> {
    wanted = id;
    [resend, isDone] = [undefined, false];
    try {
      const result = await spool.resend(id);
      if (wanted !== id) return;
      resend = result;
      log.warn(
        { resend: id, ...result },
        "the control plane's database was restored; sending kept usage records again",
      );
    } catch (error) {
      if (wanted === id) wanted = "";
      log.error({ err: error, resend: id }, "could not make kept usage records pending; will retry");
    }
  }

  return {
    /** A welcome or a renewal. */
    receive({ restoreMark, resendId }: { readonly restoreMark: string; readonly resendId: string }) {
      // The mark of a restored database is stored only after the resend is durable: until then Hello must show the old one.
      if (resendId !== "" && resendId !== wanted) void begin(resendId);
      if (resendId === "" || resend)
        store
          .sawRestoreMark(restoreMark)
          .catch((error) => log.error({ err: error }, "could not persist the restore mark"));
    },
    /** Null without a resend since the agent started. */
    async report() {
      if (!resend) return null;
      if (!isDone) {
        const [oldest] = await spool.pending(1);
        isDone = oldest === undefined || BigInt(oldest.spoolId) > BigInt(resend.throughId);
      }
      const { records, dropped, droppedThroughMs } = resend;
      return { resendId: wanted, records, dropped, droppedThroughMs, done: isDone };
    },
  };
}
