// Retention periods by kind of row. Ledger, sums of usage, invoices and audit are kept forever. Pure.

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

interface Period {
  /** Infinite: kept forever. */
  readonly defaultMs: number;
  /** Minimum: rows are still read before it. */
  readonly minMs: number;
}

const days = (count: number, min: number): Period => ({ defaultMs: count * dayMs, minMs: min * dayMs });

export const periods = {
  /** Usage records, in whole months. Their sums stay. An older record is never settled. */
  usage: { defaultMs: Number.POSITIVE_INFINITY, minMs: 400 * dayMs },
  /** The change feed that replicas follow. A replica that was stopped for longer reloads everything at start. */
  changes: days(7, 1),
  /** Names that clients gave their requests. */
  "request-labels": days(30, 1),
  /** Requests that were rejected before a host recorded them. */
  "rejected-requests": days(30, 1),
  /** Delivered counts of broken streams, once settled. */
  "delivered-counts": days(30, 1),
  /** Closed leases: a later usage record finds only its account's budget. */
  leases: days(35, 2),
  /** Commands of hosts, after their end or their latest start time. */
  commands: days(30, 1),
  /** Instances that ended: one that is observed again later is shown instead of removed. */
  "ended-instances": days(90, 1),
  /** Requests with a webhook, their results, and logs of calls, after delivery or exhaustion. */
  webhooks: days(7, 1),
  /** Alerts of limits. A month's are not sent again while they are kept. */
  "limit-alerts": days(400, 32),
  /** Mails, after they were queued. */
  mails: days(30, 2),
  /** Stored responses, after they were created; not those that still run. */
  "stored-responses": { defaultMs: 30 * dayMs, minMs: hourMs },
  /** Ended batches whose files are gone, and results that could not be written. */
  batches: days(60, 1),
  /** Events of deployments and hosts. */
  events: days(30, 1),
  /** Incidents, after their end. */
  incidents: days(90, 1),
  /** Control planes that no longer run. */
  replicas: days(35, 2),
  /** Events of resumable streams, after the expiry of the stream. */
  "stream-pieces": { defaultMs: 0, minMs: 0 },
  /** Responses kept under an `Idempotency-Key`, after their expiry. */
  idempotency: { defaultMs: hourMs, minMs: hourMs },
  /** Sessions, after their expiry. */
  "login-sessions": days(7, 0),
  "cli-logins": days(1, 0),
  /** Unfinished sign-in steps, after their expiry. */
  "sign-in-challenges": { defaultMs: hourMs, minMs: 0 },
  /** Sign-ins that did not come back from an identity provider, after their expiry. */
  "provider-sign-ins": { defaultMs: hourMs, minMs: 0 },
  /** Exchanges of workloads' tokens, after the expiry of the token and of the key. */
  "workload-exchanges": { defaultMs: hourMs, minMs: hourMs },
  /** Counts of sign-in attempts, after their window. */
  "sign-in-attempts": { defaultMs: hourMs, minMs: 0 },
} as const satisfies Record<string, Period>;

export type Kept = keyof typeof periods;
export type Retention = Readonly<Record<Kept, number>>;

const units: Readonly<Record<string, number>> = { h: hourMs, d: dayMs };

/** Parses `changes=3d,request-labels=2d` over the defaults, in milliseconds; each problem is a sentence for the operator. */
export function readRetention(text: string | undefined): {
  readonly retention: Retention;
  readonly problems: string[];
} {
  const problems: string[] = [];
  const retention = Object.fromEntries(
    Object.entries(periods).map(([kind, { defaultMs }]) => [kind, defaultMs]),
  ) as Record<Kept, number>;
  for (const item of (text ?? "").split(",").map((part) => part.trim())) {
    if (item === "") continue;
    const [, kind = "", count = "", unit = ""] = /^([\w-]+)=(\d{1,5})([hd])$/.exec(item) ?? [];
    const period: Period | undefined = Object.hasOwn(periods, kind) ? periods[kind as Kept] : undefined;
    const ms = Number(count) * (units[unit] ?? 0);
    if (!period) {
      const known = Object.keys(periods).join(", ");
      problems.push(`STOKER_RETENTION: ${JSON.stringify(item)} is not KIND=12h or KIND=7d with a kind of ${known}.`);
    } else if (ms < period.minMs || ms === 0) {
      problems.push(`STOKER_RETENTION: ${kind} must be at least ${Math.max(1, period.minMs / hourMs)}h.`);
    } else retention[kind as Kept] = ms;
  }
  return { retention, problems };
}
