import { nano, toUsd } from "../../../proto/money.ts";
import { unixSeconds } from "../../../proto/unix-seconds.ts";
import { type ShownColumn, type ShownUsage, shownFields } from "../../../proto/usage-record.ts";
import type { LoggedRequest } from "../../billing/request-log.ts";
import type { UsageDay, UsageDimension } from "../../billing/usage-days.ts";
import { cents } from "./render-payment.ts";
import type { AdminRequestRecord, RequestRecord, UsageDaysBody } from "./usage-log-schemas.ts";

/** Returns the id of a scoped token from its budget, whose prefix is the kind of budget. */
export const tokenIdOf = (budget: string): string => budget.replace(/^jwt\//, "");

export function renderUsageDay({ day, items, totalCost }: UsageDay, by: UsageDimension): UsageDaysBody["days"][number] {
  return {
    day,
    total_cost: cents(totalCost),
    items: items.map((item) => ({
      id: by === "token" ? tokenIdOf(item.of) : item.of,
      name: item.name,
      spending_limit: item.limit === null ? null : toUsd(nano(item.limit)),
      requests: item.requests,
      input_tokens: item.inputTokens,
      output_tokens: item.outputTokens,
      cost: cents(item.cost),
    })),
  };
}

const shownOf = (one: LoggedRequest) =>
  Object.fromEntries(shownFields.map(({ name, column }) => [column, one[name as ShownUsage]])) as Record<
    ShownColumn,
    number
  >;

export function renderRequest(one: LoggedRequest): RequestRecord {
  return {
    request_id: one.id,
    attempt: one.attempt,
    counts: !one.isVoided,
    model: one.model,
    token_id: one.key,
    end_reason: one.endReason,
    created_at: unixSeconds(one.admittedAtMs),
    ended_at: unixSeconds(one.endedAtMs),
    ...shownOf(one),
    cost: cents(nano(one.charge)),
  };
}

export const renderRequestForOperator = (one: LoggedRequest): AdminRequestRecord => ({
  ...renderRequest(one),
  account: one.account,
  deploy_id: one.deployId,
  instance_id: one.instanceId,
});
