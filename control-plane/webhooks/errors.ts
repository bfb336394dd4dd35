import { ServiceError } from "../service-error.ts";

export class BadWebhookUrl extends ServiceError {
  readonly code = "webhook_invalid";
  constructor() {
    super("`webhook` is not a URL of at most 2048 characters, such as https://example.com/hook.", { param: "webhook" });
  }
}

/** A URL that is not called. */
export class WebhookRefused extends ServiceError {
  readonly code = "webhook_refused";
  /** A part of a sentence. */
  readonly why: string;
  constructor(why: string) {
    super(`This webhook is not called: ${why}.`, { param: "webhook" });
    this.why = why;
  }
}

/** The account's requests that have not ended take as much as is kept for one account. */
export class WebhookQueueFull extends ServiceError {
  readonly code = "webhook_queue_full";
  constructor({ count, bytes }: { readonly count: number; readonly bytes: number }) {
    super(
      `Your account has ${count} requests with a webhook, or ${Math.floor(bytes / 1024 ** 2)} MiB of them, that have not ended, its ` +
        "limit. Send this one again when some have been told.",
      { retryAfterSeconds: 30 },
    );
  }
}

/** Answers that receivers have not taken. */
export class WebhookAnswersFull extends ServiceError {
  readonly code = "webhook_answers_full";
  constructor() {
    super(
      "Answers that your webhooks have not taken yet fill the room that your account has for them. Send this request again when " +
        "your receivers answer with 2xx: `GET /v1/webhooks/deliveries` lists what waits.",
      { retryAfterSeconds: 300 },
    );
  }
}

export class DeliveryEmptied extends ServiceError {
  readonly code = "webhook_results_not_found";
  constructor() {
    super(
      "What this call said is not kept any more: newer answers of your account needed the room. Send the request itself again.",
    );
  }
}

export class DeliveryNotFound extends ServiceError {
  readonly code = "webhook_delivery_not_found";
  constructor() {
    super("There is no such delivery in your account. They are listed for 7 days: `GET /v1/webhooks/deliveries`.");
  }
}

export class DeliveryPending extends ServiceError {
  readonly code = "webhook_delivery_pending";
  constructor() {
    super("This delivery is still being tried; its `next_attempt_at` says when. Replay it when it has ended.");
  }
}

export class ResultsGone extends ServiceError {
  readonly code = "webhook_results_not_found";
  constructor() {
    super("There are no results under this link: it was cut off, or they were kept for 7 days and are gone.");
  }
}

/** The account ended while the request was under way. */
export class WebhookAccountGone extends ServiceError {
  readonly code = "account_not_found";
  constructor() {
    super("The account of this key has ended.");
  }
}
