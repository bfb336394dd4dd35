import { Type } from "typebox";

export const WebhookSecretBody = Type.Object({
  secret: Type.String({ description: "`whsec_` and base64: signs every call (Standard Webhooks)" }),
  created_at: Type.Integer({ description: "Unix seconds" }),
  previous_secret_expires_at: Type.Union([Type.Integer(), Type.Null()], {
    description: "Unix seconds until which the secret before this one signs as well",
  }),
});

const nullableInteger = (description: string) => Type.Union([Type.Integer(), Type.Null()], { description });
const nullableText = (description: string) => Type.Union([Type.String(), Type.Null()], { description });

export const WebhookDeliveryBody = Type.Object({
  id: Type.String({ description: "The header `webhook-id`, the same on every attempt" }),
  request_id: Type.String(),
  url: Type.String(),
  state: Type.Unsafe<string>({ type: "string", enum: ["pending", "delivered", "exhausted"] }),
  error_code: nullableText("Why the request failed; null: it succeeded"),
  error_message: nullableText("The same in words"),
  attempts: Type.Integer(),
  last_status: nullableInteger("HTTP status of the receiver's last answer"),
  last_outcome: nullableText("ok, 3xx, 4xx, 5xx, timeout, blocked or unreachable"),
  created_at: Type.Integer({ description: "Unix seconds" }),
  next_attempt_at: nullableInteger("Unix seconds, while it is pending"),
  finished_at: nullableInteger("Unix seconds"),
});

export const WebhookDeliveryList = Type.Object({
  deliveries: Type.Array(WebhookDeliveryBody),
  next_cursor: nullableText("Asks for the page after this one; null on the last"),
});

export const WebhookDeliveryDetail = Type.Interface([WebhookDeliveryBody], {
  history: Type.Array(
    Type.Object({
      number: Type.Integer(),
      at: Type.Integer({ description: "Unix seconds" }),
      duration_ms: Type.Integer(),
      outcome: Type.String(),
      status: nullableInteger("HTTP status of the receiver's answer"),
      answer: Type.String({ description: "Its first KiB, or why there was none" }),
    }),
  ),
});

export const WebhookDeliveryQuery = Type.Object({
  cursor: Type.Optional(Type.String({ description: "`next_cursor` of the page before" })),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: 20 })),
});
