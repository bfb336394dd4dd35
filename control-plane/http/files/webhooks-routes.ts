// The secret that signs webhook calls, and the delivery log.

import { Type } from "typebox";
import { unixSeconds, unixSecondsOrNull } from "../../../proto/unix-seconds.ts";
import type { WebhookSecret } from "../../webhooks/secrets.ts";
import type { DeliveryRecord } from "../../webhooks/store.ts";
import { actorOf } from "../core/act-of.ts";
import type { Endpoints } from "../core/endpoint.ts";
import type { FileFeatures } from "./features.ts";

const WebhookSecretBody = Type.Object({
  secret: Type.String({ description: "`whsec_` and base64: signs every call (Standard Webhooks)" }),
  created_at: Type.Integer({ description: "Unix seconds" }),
  previous_secret_expires_at: Type.Union([Type.Integer(), Type.Null()], {
    description: "Unix seconds until which the previous secret also signs",
  }),
});

const nullableInteger = (description: string) => Type.Union([Type.Integer(), Type.Null()], { description });
const nullableText = (description: string) => Type.Union([Type.String(), Type.Null()], { description });

const WebhookDeliveryBody = Type.Object({
  id: Type.String({ description: "The header `webhook-id`, the same on every attempt" }),
  request_id: Type.String({ description: "Request whose result it is. Of an event: the id of the delivery" }),
  event: nullableText("`limit.alert`; null: the result of a request"),
  url: Type.String({ description: "Without its query for an operator who acts as the account" }),
  state: Type.Unsafe<string>({ type: "string", enum: ["pending", "delivered", "exhausted"] }),
  error_code: nullableText("Why the request failed; null: it succeeded"),
  error_message: nullableText("Message of the error"),
  attempts: Type.Integer(),
  last_status: nullableInteger("HTTP status of the receiver's last response"),
  last_outcome: nullableText("ok, 3xx, 4xx, 5xx, timeout, blocked or unreachable"),
  created_at: Type.Integer({ description: "Unix seconds" }),
  next_attempt_at: nullableInteger("Unix seconds, while it is pending"),
  finished_at: nullableInteger("Unix seconds"),
});

const WebhookDeliveryList = Type.Object({
  deliveries: Type.Array(WebhookDeliveryBody),
  next_cursor: nullableText("Cursor of the next page; null on the last page"),
});

const WebhookDeliveryDetail = Type.Interface([WebhookDeliveryBody], {
  history: Type.Array(
    Type.Object({
      number: Type.Integer(),
      at: Type.Integer({ description: "Unix seconds" }),
      duration_ms: Type.Integer(),
      outcome: Type.String(),
      status: nullableInteger("HTTP status of the receiver's response"),
      answer: Type.String({ description: "First KiB of the response, or why there was none" }),
    }),
  ),
});

const WebhookDeliveryQuery = Type.Object({
  cursor: Type.Optional(Type.String({ maxLength: 256, description: "`next_cursor` of the previous page" })),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: 20 })),
});

export function addWebhookRoutes(endpoints: Endpoints, { webhooks }: FileFeatures): void {
  const own = endpoints.with({ tag: "inference", access: "key" });
  const open = endpoints.with({ tag: "inference", access: "public" });

  const secret = { holdsSecrets: true, answer: WebhookSecretBody, refusals: [404] } as const;
  own.get("/v1/webhooks/secret", {
    ...secret,
    right: "manageKeys",
    summary: "Get the secret that signs the account's webhooks",
    handler: async ({ caller }) => renderSecret(await webhooks.secret(caller.account)),
  });
  own.post("/v1/webhooks/secret/rotate", {
    ...secret,
    right: "manageKeys",
    summary: "Rotate the secret; the old one stays valid for 24 hours",
    handler: async ({ caller, reply }) => renderSecret(await webhooks.rotate(actorOf(caller, reply))),
  });
  own.get("/v1/webhooks/deliveries", {
    isOpenToOperators: true,
    summary: "List webhook deliveries of the last 7 days, newest first",
    query: WebhookDeliveryQuery,
    answer: WebhookDeliveryList,
    async handler({ caller, query }) {
      const page = await webhooks.deliveries(caller.account, query.cursor, query.limit ?? 20);
      const shown = page.deliveries.map(renderDelivery);
      const deliveries =
        caller.operator === undefined ? shown : shown.map((one) => ({ ...one, url: withoutQuery(one.url) }));
      return { deliveries, next_cursor: page.nextCursor };
    },
  });
  const one = {
    params: Type.Object({ webhook_id: Type.String({ description: "The header `webhook-id` of the call" }) }),
    answer: WebhookDeliveryDetail,
  } as const;
  const shown = async (account: Parameters<typeof webhooks.delivery>[0], id: string) => {
    const { delivery, attempts } = await webhooks.delivery(account, id);
    const history = attempts.map(({ number, atMs, ms, outcome, status, answer }) => ({
      number,
      at: unixSeconds(atMs),
      duration_ms: ms,
      outcome,
      status: status ?? null,
      answer,
    }));
    return { ...renderDelivery(delivery), history };
  };
  own.get("/v1/webhooks/deliveries/:webhook_id", {
    ...one,
    summary: "Get a delivery with its attempts",
    refusals: [404],
    handler: ({ caller, params }) => shown(caller.account, params.webhook_id),
  });
  own.post("/v1/webhooks/deliveries/:webhook_id/replay", {
    ...one,
    summary: "Repeat a finished delivery with the same id and body",
    refusals: [404, 409],
    async handler({ caller, params, reply }) {
      await webhooks.replay(actorOf(caller, reply), params.webhook_id);
      return shown(caller.account, params.webhook_id);
    },
  });
  open.get("/v1/webhooks/results/:request_id", {
    summary: "Get results that were too large for a delivery, by its signed link",
    holdsSecrets: true,
    query: Type.Object({ expires: Type.String({ maxLength: 20 }), sig: Type.String({ maxLength: 128 }) }),
    answer: Type.Object({}, { description: "Reply of the model's task" }),
    refusals: [404],
    async handler({ params, query, reply }) {
      const results = await webhooks.results(params.request_id, query.expires, query.sig);
      reply.header("content-type", "application/json").header("referrer-policy", "no-referrer");
      return results;
    },
  });
}

const renderSecret = ({ secret, madeAtMs, previousUntilMs }: WebhookSecret) => ({
  secret,
  created_at: unixSeconds(madeAtMs),
  previous_secret_expires_at: unixSecondsOrNull(previousUntilMs),
});

/** The query of a receiver's URL may hold a secret. */
export function withoutQuery(url: string): string {
  const { origin, pathname } = new URL(url);
  return origin + pathname;
}

const renderDelivery = (one: DeliveryRecord) => ({
  id: one.webhookId,
  request_id: one.requestId,
  event: one.event,
  url: one.url,
  state: one.state,
  error_code: one.error?.code ?? null,
  error_message: one.error?.message ?? null,
  attempts: one.attempts,
  last_status: one.lastStatus,
  last_outcome: one.lastOutcome,
  created_at: unixSeconds(one.createdAtMs),
  next_attempt_at: unixSecondsOrNull(one.nextAttemptAtMs),
  finished_at: unixSecondsOrNull(one.finishedAtMs),
});
