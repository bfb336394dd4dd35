// Webhook operations of the edge: accept a request, show and replay calls, show and rotate the secret.

import type { AccountId, RequestId } from "../../proto/ids.ts";
import type { Caller } from "../accounts/caller.ts";
import type { Actor } from "../act.ts";
import { checkCursor, pageOf } from "../page.ts";
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
import type { WebhookSecrets } from "./secrets.ts";
import type { AttemptView, DeliveryRecord, JobsLimit, WebhookDeliveryStore, WebhookJobStore } from "./store.ts";
import type { Target, Targets } from "./target.ts";

export interface AcceptedRequest
  extends Pick<NewJob, "requestId" | "label" | "source" | "trace" | "model" | "body" | "origin"> {
  readonly caller: Caller;
  readonly target: Target;
}

export interface DeliveryPage {
  readonly deliveries: readonly DeliveryRecord[];
  readonly nextCursor: string | null;
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
  readonly unixMs?: () => number;
}) {
  const { jobs, deliveries: store, secrets, targets, links } = deps;
  const unixMs = deps.unixMs ?? Date.now;
  return {
    /** Throws BadWebhookUrl, WebhookRefused. */
    check: targets.check,
    /** Sets how requests are run. Called once by the edge, which knows their bodies. */
    runWith: deps.runWith,
    /** Durable when it returns. Throws webhookAccountGone, webhookQueueFull, webhookAnswersFull. */
    async accept({ caller, target, ...request }: AcceptedRequest): Promise<void> {
      const job = { ...request, ...target, account: caller.account, key: caller.key, token: tokenOf(caller) };
      const outcome = await jobs.addJob(job, lifeMs, maxWaiting);
      if (outcome === "gone") throw webhookAccountGone();
      if (outcome === "unheard") throw webhookAnswersFull();
      if (outcome === "full") throw webhookQueueFull(maxWaiting);
      deps.onAccepted();
    },
    /** Throws webhookAccountGone, as `rotate` does. */
    secret: secrets.get,
    /** The old secret signs beside the new one for a day. `ip`: recorded in the audit log. */
    rotate: secrets.rotate,
    /** Newest first. Throws badCursor. */
    async deliveries(account: AccountId, cursor: string | undefined, limit: number): Promise<DeliveryPage> {
      checkCursor(cursor, idForm);
      const found = await store.deliveries(account, cursor, limit + 1);
      const { page, nextCursor } = pageOf(found, limit, ({ webhookId }) => webhookId);
      return { deliveries: page, nextCursor };
    },
    /** Throws deliveryNotFound. */
    async delivery(
      account: AccountId,
      webhookId: string,
    ): Promise<{ readonly delivery: DeliveryRecord; readonly attempts: readonly AttemptView[] }> {
      const found = await store.delivery(account, webhookId);
      if (!found) throw deliveryNotFound();
      return found;
    },
    /** Restarts the schedule. Throws deliveryNotFound, deliveryPending, deliveryEmptied. */
    async replay(actor: Actor, webhookId: string): Promise<void> {
      const outcome = await store.replay(actor, webhookId);
      if (outcome === "unknown") throw deliveryNotFound();
      if (outcome === "empty") throw deliveryEmptied();
      if (outcome === "pending") throw deliveryPending();
      deps.onReplayed();
    },
    /** Returns JSON, by the signed link. Throws resultsGone. */
    async results(requestId: string, expires: string, signature: string): Promise<Buffer> {
      if (!links.isGood(requestId, expires, signature, unixMs())) throw resultsGone();
      const found = await store.results(requestId as RequestId);
      if (!found) throw resultsGone();
      return found;
    },
  };
}

export type Webhooks = ReturnType<typeof createWebhooks>;
