import { nano, toUsd } from "../../proto/money.ts";
import type { LoggedRequest } from "../billing/request-log.ts";
import type { UsageDay, UsageDimension } from "../billing/usage-days.ts";
import { cents } from "./render-payment.ts";
import type { AdminRequestRecord, RequestRecord, UsageDaysBody } from "./schemas/usage-log.ts";

/** Of a scoped token, by its budget: what is before the slash says what kind of budget it is. */
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

const seconds = (ms: number) => Math.floor(ms / 1000);

export function renderRequest(one: LoggedRequest): RequestRecord {
  return {
    request_id: one.id,
    attempt: one.attempt,
    counts: !one.isVoided,
    model: one.model,
    token_id: one.key,
    end_reason: one.endReason,
    created_at: seconds(one.admittedAtMs),
    ended_at: seconds(one.endedAtMs),
    queue_ms: one.queueMs,
    first_byte_ms: one.firstByteMs,
    total_ms: one.totalMs,
    input_tokens: one.inputTokens,
    cached_input_tokens: one.cachedInputTokens,
    output_tokens: one.outputTokens,
    reasoning_tokens: one.reasoningTokens,
    cost: cents(nano(one.charge)),
  };
}

export const renderRequestForOperator = (one: LoggedRequest): AdminRequestRecord => ({
  ...renderRequest(one),
  account: one.account,
  deploy_id: one.deployId,
  instance_id: one.instanceId,
});
