// How long rows that nobody needs any more stay, by kind. Ledger, usage, invoices and audit are kept for ever. Pure.

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

interface Period {
  readonly defaultMs: number;
  /** Sooner than this something still reads them. */
  readonly leastMs: number;
}

const days = (count: number, least: number): Period => ({ defaultMs: count * dayMs, leastMs: least * dayMs });

export const periods = {
  /** The feed of changes that replicas follow; one that was stopped for longer reads everything anew at its start. */
  changes: days(7, 1),
  /** Clients' own names of their requests. */
  "request-labels": days(30, 1),
  /** What the gateway delivered of answers that broke off, once they are settled. */
  "delivered-counts": days(30, 1),
  /** Closed slices of budgets: a record that comes later than this finds only its account's budget. */
  leases: days(35, 2),
  /** What hosts were to do once: since its end, or since it was to be begun at the latest. */
  commands: days(30, 1),
  /** Which instances had ended: one that is seen again later than this is shown instead of removed. */
  "ended-instances": days(90, 1),
  /** Requests with a webhook, their results and the log of their calls, since the call was taken or given up. */
  webhooks: days(7, 1),
  /** Batches that ended, and whose files are gone; with what could never be written of their results. */
  batches: days(60, 1),
  /** Control planes that are gone. */
  replicas: days(35, 2),
  /** Answers kept for a day under an `Idempotency-Key`, after their expiry. */
  idempotency: { defaultMs: hourMs, leastMs: hourMs },
  /** Sign-ins after their expiry. */
  "login-sessions": days(7, 0),
  "cli-logins": days(1, 0),
  /** Counts of passwords that were tried, after their window. */
  "sign-in-attempts": { defaultMs: hourMs, leastMs: 0 },
} as const satisfies Record<string, Period>;

export type Kept = keyof typeof periods;
export type Retention = Readonly<Record<Kept, number>>;

const units: Readonly<Record<string, number>> = { h: hourMs, d: dayMs };

/** `changes=3d,request-labels=2d` over the defaults, in milliseconds; every problem is a sentence for the operator. */
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
    } else if (ms < period.leastMs || ms === 0) {
      problems.push(`STOKER_RETENTION: ${kind} must be at least ${Math.max(1, period.leastMs / hourMs)}h.`);
    } else retention[kind as Kept] = ms;
  }
  return { retention, problems };
}
