import { conflict, type ErrorParams, notFound, rateLimited, ServiceError } from "../service-error.ts";

export class BadWebhookUrl extends ServiceError {
  constructor() {
    super(
      "invalid",
      "webhook_invalid",
      "`webhook` must be a URL of at most 2048 characters, such as https://example.com/hook.",
      { param: "webhook" },
    );
  }
}

/** The URL is not permitted. */
export class WebhookRefused extends ServiceError<ErrorParams & { readonly why: string }> {
  constructor(why: string) {
    super("bad_request", "webhook_refused", `Webhook not allowed: ${why}.`, {
      param: "webhook",
      params: { why },
    });
  }
}

/** The account's unfinished requests have reached its limit. */
export const webhookQueueFull = ({ count, bytes }: { readonly count: number; readonly bytes: number }) =>
  rateLimited(
    "webhook_queue_full",
    `Your account has ${count} requests with a webhook, or ${Math.floor(bytes / 1024 ** 2)} MiB of them, that have not finished, its ` +
      "limit. Try again when some of them are delivered.",
    { retryAfterSeconds: 30 },
  );

/** The account's undelivered results have reached its limit. */
export const webhookAnswersFull = () =>
  rateLimited(
    "webhook_answers_full",
    "The undelivered results of your webhooks use all the space of your account. Try again when your receivers reply with " +
      "2xx; `GET /v1/webhooks/deliveries` lists the pending deliveries.",
    { retryAfterSeconds: 300 },
  );

export const deliveryEmptied = () =>
  notFound(
    "webhook_results_not_found",
    "The content of this delivery was removed to make space for newer ones. Send the original request again.",
  );

export const deliveryNotFound = () =>
  notFound(
    "webhook_delivery_not_found",
    "Delivery not found. `GET /v1/webhooks/deliveries` lists those of the last 7 days.",
  );

export const deliveryPending = () =>
  conflict(
    "webhook_delivery_pending",
    "This delivery is still pending; `next_attempt_at` is its next attempt. Replay it when it has finished.",
  );

export const resultsGone = () =>
  notFound(
    "webhook_results_not_found",
    "Results not found. Results are kept for 7 days; check that the link is complete.",
  );

/** The account ended during the request. */
export const webhookAccountGone = () => notFound("account_not_found", "The account of this key no longer exists.");
