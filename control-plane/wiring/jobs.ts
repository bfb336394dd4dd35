// The repeated jobs of this installation.
import type { Logger } from "pino";
import type { Registry } from "prom-client";
import type { JobsAddress } from "../jobs/backend.ts";
import { createRepeatedJobs, type RepeatedJobs } from "../jobs/repeated-jobs.ts";
import type { Retention } from "../retention/periods.ts";
import { sweepOld } from "../retention/sweep.ts";
import type { OpenDatabase } from "../store/core/database.ts";
import { createRetentionStore } from "../store/core/retention-store.ts";

const minuteMs = 60_000;
const keepFinishedMs = 7 * 24 * 60 * minuteMs;

export const jobsAddress = (at: {
  readonly databaseUrl: string;
  readonly redisUrl: string | undefined;
}): JobsAddress => (at.redisUrl ? { redisUrl: at.redisUrl } : { databaseUrl: at.databaseUrl });

export function createJobs(deps: {
  readonly db: OpenDatabase["db"];
  readonly address: JobsAddress;
  readonly retention: Retention;
  /** Invoices of the months that ended; idempotent. */
  readonly closeMonths: () => Promise<unknown>;
  /** Seals settled usage, and signs closed months; idempotent. */
  readonly sealUsage: (signal: AbortSignal) => Promise<unknown>;
  /** Alerts of monthly limits; idempotent. */
  readonly watchLimits: () => Promise<unknown>;
  /** Sums of usage that an earlier version stored by month; idempotent. */
  readonly divideUsage: (signal: AbortSignal) => Promise<unknown>;
  /** Queued mails; idempotent. Undefined: this installation sends none. */
  readonly deliverMails: ((signal: AbortSignal) => Promise<unknown>) | undefined;
  /** Schedule and retention of backups; idempotent. */
  readonly maintainBackups: () => Promise<unknown>;
  /** Bytes of files that were deleted or have expired; idempotent. */
  readonly sweepFiles: (signal: AbortSignal) => Promise<unknown>;
  /** Samples and roll-ups of time series; idempotent. */
  readonly maintainSeries: (signal: AbortSignal) => Promise<unknown>;
  /** Opens and ends incidents; idempotent. */
  readonly watchIncidents: () => Promise<unknown>;
  /** Chains new rows of the audit log; idempotent. */
  readonly sealAudit: (signal: AbortSignal) => Promise<unknown>;
  /** Sends them to receivers; undefined: there are none. */
  readonly deliverAudit: ((signal: AbortSignal) => Promise<unknown>) | undefined;
  readonly log: Logger;
  readonly registry: Registry;
}): RepeatedJobs {
  const { db, retention, log } = deps;
  const store = createRetentionStore(db);
  return createRepeatedJobs({
    address: deps.address,
    jobs: [
      {
        name: "retention",
        everyMs: 15 * minuteMs,
        run: (signal) => sweepOld({ store, retention, log }, Date.now(), signal),
      },
      { name: "close-months", everyMs: 10 * minuteMs, run: deps.closeMonths },
      { name: "seal-usage", everyMs: 30 * minuteMs, run: deps.sealUsage },
      { name: "tend-backups", everyMs: 5 * minuteMs, run: deps.maintainBackups },
      { name: "series", everyMs: minuteMs / 2, run: deps.maintainSeries },
      { name: "incidents", everyMs: minuteMs / 4, run: deps.watchIncidents },
      { name: "limit-alerts", everyMs: minuteMs / 4, run: deps.watchLimits },
      { name: "divide-usage", everyMs: minuteMs, run: deps.divideUsage },
      ...(deps.deliverMails ? [{ name: "mails", everyMs: minuteMs / 4, run: deps.deliverMails }] : []),
      { name: "seal-audit", everyMs: minuteMs / 4, run: deps.sealAudit },
      ...(deps.deliverAudit ? [{ name: "deliver-audit", everyMs: minuteMs, run: deps.deliverAudit }] : []),
      { name: "sweep-files", everyMs: 10 * minuteMs, run: deps.sweepFiles },
    ],
    log,
    registry: deps.registry,
    keepFinishedMs,
  });
}
