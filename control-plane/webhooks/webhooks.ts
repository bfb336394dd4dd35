// Webhook operations of the edge: accept a request, show and replay calls, show and rotate the secret.
import type { AccountId, RequestId } from "../../proto/ids.ts";
import type { Caller } from "../accounts/caller.ts";
import { badCursor } from "../accounts/errors.ts";
import {
  deliveryEmptied,
  deliveryNotFound,
  deliveryPending,
  resultsGone,
  webhookAccountGone,
  webhookAnswersFull,
  webhookQueueFull,
} from "./errors.ts";
import { type NewJob, type RunJob, tokenOf } from "./job.ts";
import type { ResultsLinks } from "./results-link.ts";
import type { WebhookSecret, WebhookSecrets } from "./secrets.ts";
import type { AttemptView, DeliveryRecord, JobsLimit, WebhookDeliveryStore, WebhookJobStore } from "./store.ts";
import type { Target, Targets } from "./target.ts";

export interface AcceptedRequest extends Pick<NewJob, "requestId" | "label" | "source" | "model" | "body" | "origin"> {
  readonly caller: Caller;
  readonly target: Target;
}

export interface DeliveryPage {
  readonly deliveries: readonly DeliveryRecord[];
  readonly nextCursor: string | null;
}

export interface Webhooks {
  /** Throws BadWebhookUrl, WebhookRefused. */
  check(url: string): Promise<Target>;
  /** Durable when it returns. Throws webhookAccountGone, webhookQueueFull, webhookAnswersFull. */
  accept(request: AcceptedRequest): Promise<void>;
  /** Throws webhookAccountGone, as `rotate` does. */
  secret(account: AccountId): Promise<WebhookSecret>;
  /** The old secret signs beside the new one for a day. `ip`: recorded in the audit log. */
  rotate(account: AccountId, ip: string): Promise<WebhookSecret>;
  /** Newest first. Throws badCursor. */
  deliveries(account: AccountId, cursor: string | undefined, limit: number): Promise<DeliveryPage>;
  /** Throws deliveryNotFound. */
  delivery(
    account: AccountId,
    webhookId: string,
  ): Promise<{ readonly delivery: DeliveryRecord; readonly attempts: readonly AttemptView[] }>;
  /** Restarts the schedule. Throws deliveryNotFound, deliveryPending, deliveryEmptied. */
  replay(account: AccountId, webhookId: string, ip: string): Promise<void>;
  /** Returns JSON, by the signed link. Throws resultsGone. */
  results(requestId: string, expires: string, signature: string): Promise<Buffer>;
  /** Sets how requests are run. Called once by the edge, which knows their bodies. */
  runWith(run: RunJob): void;
}

const lifeMs = 24 * 60 * 60 * 1000;
const maxWaiting: JobsLimit = { count: 5_000, bytes: 1024 ** 3 };
const idForm = /^msg_[0-9A-HJKMNP-TV-Z]{26}$/;

export function createWebhooks(deps: {
  readonly jobs: Pick<WebhookJobStore, "addJob">;
  readonly deliveries: Pick<WebhookDeliveryStore, "deliveries" | "delivery" | "replay" | "results">;
  readonly secrets: WebhookSecrets;
  readonly targets: Targets;
  readonly links: ResultsLinks;
  readonly onAccepted: () => void;
  readonly onReplayed: () => void;
  readonly runWith: (run: RunJob) => void;
  readonly maxWaiting?: JobsLimit;
  readonly unixMs?: () => number;
}): Webhooks {
  const { jobs, deliveries: store, secrets, targets, links } = deps;
  const unixMs = deps.unixMs ?? Date.now;
  const most = deps.maxWaiting ?? maxWaiting;
  return {
    check: targets.check,
    runWith: deps.runWith,
    async accept({ caller, target, ...request }) {
      const job = { ...request, ...target, account: caller.account, key: caller.key, token: tokenOf(caller) };
      const outcome = await jobs.addJob(job, lifeMs, most);
      if (outcome === "gone") throw webhookAccountGone();
      if (outcome === "unheard") throw webhookAnswersFull();
      if (outcome === "full") throw webhookQueueFull(most);
      deps.onAccepted();
    },
    secret: secrets.get,
    rotate: secrets.rotate,
    async deliveries(account, cursor, limit) {
      if (cursor !== undefined && !idForm.test(cursor)) throw badCursor();
      const found = await store.deliveries(account, cursor, limit + 1);
      const page = found.slice(0, limit);
      return { deliveries: page, nextCursor: found.length > limit ? (page.at(-1)?.webhookId ?? null) : null };
    },
    async delivery(account, webhookId) {
      const found = await store.delivery(account, webhookId);
      if (!found) throw deliveryNotFound();
      return found;
    },
    async replay(account, webhookId, ip) {
      const outcome = await store.replay(account, webhookId, ip);
      if (outcome === "unknown") throw deliveryNotFound();
      if (outcome === "empty") throw deliveryEmptied();
      if (outcome === "pending") throw deliveryPending();
      deps.onReplayed();
    },
    async results(requestId, expires, signature) {
      if (!links.isGood(requestId, expires, signature, unixMs())) throw resultsGone();
      const found = await store.results(requestId as RequestId);
      if (!found) throw resultsGone();
      return found;
    },
  };
}
