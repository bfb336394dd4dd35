// Detects that the database was restored to an earlier state and asks every agent to send the usage records again that were
// acknowledged since. Signs of a restore: the cluster or timeline changed; an agent reports a mark that this database never
// issued; an agent reports an epoch that this database never issued. Settling a record again changes nothing.
import type { Logger } from "pino";
import type { HostId } from "../../proto/ids.ts";
import { repeat } from "../../proto/repeat.ts";
import { acknowledgedKeptMs } from "../../proto/usage-record.ts";
import type { OpenReconcile, ReconcileStore, ResendOfHost, SignOfHost } from "./store.ts";

export interface Reconcile {
  /** Runs before any agent is served. */
  start(): Promise<void>;
  /**
   * Opens a reconcile if an agent's Hello shows a restore, at most one per host in 48 hours. Returns the message for its
   * Welcome.
   */
  sawAgent(agent: {
    readonly host: HostId;
    readonly mark: string;
    readonly isBehind: boolean;
    readonly highestEpoch: bigint;
  }): Promise<ReconcileMessage>;
  sawResend(host: HostId, resend: ResendOfHost): Promise<void>;
  /** Current state in memory, for renewals. */
  readonly message: ReconcileMessage;
  readonly needsReconcile: boolean;
  /** Runs until aborted. */
  run(signal: AbortSignal): Promise<void>;
}

export interface ReconcileMessage {
  readonly restoreMark: string;
  /** Empty: nothing must be sent again. */
  readonly resendId: string;
}

const markEveryMs = 10_000;
const pollEveryMs = 2_000;

export function createReconcile(deps: { readonly store: ReconcileStore; readonly log: Logger }): Reconcile {
  const { store, log } = deps;
  let mark = "";
  let open: OpenReconcile | undefined;
  let isUnavailable = false;
  let backupAtMs: number | undefined;

  async function begin(cause: string, shown?: SignOfHost): Promise<void> {
    if (await store.begin(cause, acknowledgedKeptMs, backupAtMs, shown))
      log.error(
        { alert: "needs_reconcile", cause },
        "the database was restored; agents send their stored usage records again",
      );
    open = await store.open();
  }

  async function poll(): Promise<void> {
    open = await store.open();
    mark = await store.mark(markEveryMs, false);
    const report = open && (await store.endIfDone());
    if (!report) return;
    open = undefined;
    const isComplete = report.missingHosts.length === 0 && report.lostAtMost === 0;
    log[isComplete ? "info" : "error"](
      { alert: "reconciled", ...report },
      isComplete ? "the restored database has all usage again" : "the restored database may lack usage",
    );
  }

  const message = (): ReconcileMessage => ({ restoreMark: mark, resendId: open?.id ?? "" });

  return {
    async start() {
      backupAtMs = await store.lastMarkAtMs();
      if (await store.sawIdentity()) await begin("the database runs on another cluster or timeline than before");
      open = await store.open();
      if (open) log.error({ alert: "needs_reconcile", cause: open.cause }, "the database needs to be reconciled");
      mark = await store.mark(markEveryMs, true);
    },
    async sawAgent({ host, mark: theirs, isBehind, highestEpoch }) {
      if (isBehind)
        await begin(`host ${host} has applied an epoch that this database never issued`, {
          host,
          sign: `epoch ${highestEpoch}`,
        });
      else if (theirs !== "" && !(await store.isKnownMark(theirs)))
        await begin(`host ${host} has a mark of a later state of this database`, { host, sign: `mark ${theirs}` });
      return message();
    },
    sawResend: (host, resend) => store.sawResend(host, resend),
    get message() {
      return message();
    },
    get needsReconcile() {
      return open !== undefined;
    },
    run: (signal) =>
      repeat(pollEveryMs, signal, async () => {
        try {
          await poll();
          isUnavailable = false;
        } catch (error) {
          if (!isUnavailable) log.warn({ err: error }, "could not read the state of the reconcile; will retry");
          isUnavailable = true;
        }
      }),
  };
}
