// Alerts when the month's spend of an account, a project or a key reaches a part of its limit. Each is recorded once per month, part and
// limit; a record and its webhook call are one transaction, so restarts and other control planes repeat none.
import type { AccountId, KeyId, ProjectId } from "../../proto/ids.ts";
import { nano, toUsd } from "../../proto/money.ts";
import { unixSeconds } from "../../proto/unix-seconds.ts";
import { type Clock, systemClock } from "./clock.ts";
import { type Month, monthName, monthOf } from "./period.ts";

/** Percent of the limit, rounded: the last half percent may be too little for any request. */
export const alertPercents = [50, 80, 100] as const;

export type AlertSubject = { readonly name: string } & (
  | { readonly scope: "key"; readonly id: KeyId }
  | { readonly scope: "project"; readonly id: ProjectId }
);

export interface LimitAlert {
  readonly account: AccountId;
  /** Whose limit it is; null: the account's. */
  readonly of: AlertSubject | null;
  readonly month: Month;
  readonly percent: number;
  /** Nano-USD, when the alert was raised. */
  readonly limit: bigint;
  readonly spent: bigint;
  readonly atMs: number;
  /** Its call; null: the account had no URL for alerts. */
  readonly webhookId: string | null;
  /** State of its mail; null: none was sent. */
  readonly mail: "pending" | "sent" | "failed" | null;
}

export type RaisedAlert = Omit<LimitAlert, "webhookId" | "mail">;

export interface LimitAlertStore {
  /** Records due alerts of the month that are not recorded yet, at most `max`, and their calls. Returns how many. */
  raise(request: {
    readonly month: Month;
    readonly percents: readonly number[];
    readonly max: number;
    readonly callOf: (alert: RaisedAlert) => { readonly webhookId: string; readonly body: Buffer };
    /** Undefined: this installation sends no mails. */
    readonly mailOf:
      | ((alert: RaisedAlert) => { readonly id: string; readonly subject: string; readonly text: string })
      | undefined;
  }): Promise<number>;
  /** Newest first. */
  list(account: AccountId, limit: number): Promise<readonly LimitAlert[]>;
}

export interface LimitAlerts {
  /** Raises what is due. Any number of control planes may call it at the same time. */
  watch(): Promise<void>;
  list: LimitAlertStore["list"];
}

export interface AlertMail {
  readonly makeId: () => string;
  /** Page of the console with limits and alerts; undefined: the server's address is not set. */
  readonly billingUrl: string | undefined;
}

const maxAtOnce = 500;

export function createLimitAlerts(deps: {
  readonly store: LimitAlertStore;
  readonly makeWebhookId: (unixMs: number) => string;
  /** Undefined: this installation sends no mails. */
  readonly mail: AlertMail | undefined;
  readonly clock?: Clock;
}): LimitAlerts {
  const { store } = deps;
  const clock = deps.clock ?? systemClock;
  return {
    async watch() {
      const nowMs = clock.unixMs();
      const callOf = (alert: RaisedAlert) => ({
        webhookId: deps.makeWebhookId(nowMs),
        body: Buffer.from(JSON.stringify(eventOf(alert))),
      });
      const { mail } = deps;
      const mailOf = mail && ((alert: RaisedAlert) => ({ id: mail.makeId(), ...alertMail(alert, mail.billingUrl) }));
      const request = { month: monthOf(nowMs), percents: alertPercents, max: maxAtOnce, callOf, mailOf };
      while ((await store.raise(request)) === maxAtOnce);
    },
    list: store.list,
  };
}

/** Body of the webhook call. */
const eventOf = (alert: RaisedAlert) => ({ event: "limit.alert", ...renderAlert(alert) });

/** As the API has it. Amounts in USD. */
export const renderAlert = ({ of, month, percent, limit, spent, atMs }: RaisedAlert) => ({
  created_at: unixSeconds(atMs),
  scope: of?.scope ?? "account",
  token_id: of?.scope === "key" ? of.id : null,
  project_id: of?.scope === "project" ? of.id : null,
  name: of?.name ?? null,
  period: monthName(month),
  percent,
  limit: toUsd(nano(limit)),
  spend: toUsd(nano(spent)),
});

const monthText = (month: Month): string =>
  new Date(Date.UTC(Math.floor(month / 12), month % 12)).toLocaleString("en-US", {
    month: "long",
    year: "numeric",
    timeZone: "UTC",
  });

const subjects = {
  key: { a: "an API key", the: "the API key" },
  project: { a: "a project", the: "the project" },
} as const;

function alertMail({ of, month, percent, limit, spent }: RaisedAlert, billingUrl: string | undefined) {
  const [kind, name] = of
    ? [subjects[of.scope].a, `${subjects[of.scope].the} "${of.name}"`]
    : ["your account", "your account"];
  const [spend, most] = [spent, limit].map((amount) => `USD ${toUsd(nano(amount)).toFixed(2)}`);
  return {
    subject: `${percent} % of the monthly limit of ${kind} is spent`,
    text: [
      `In ${monthText(month)} ${name} spent ${spend} of its monthly limit of ${most}.`,
      percent === 100
        ? "Requests that would pass the limit are refused with status 402 until the limit is raised or the next month begins (UTC)."
        : "Requests continue until the limit is reached.",
      ...(billingUrl ? [`Change the limit, or turn these mails off: ${billingUrl}`] : []),
    ].join("\n\n"),
  };
}
