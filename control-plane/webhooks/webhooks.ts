// What the edge asks of webhooks: take a request, show and replay calls, show and replace the secret.
import type { AccountId, RequestId } from "../../proto/ids.ts";
import type { Caller } from "../accounts/caller.ts";
import { BadCursor } from "../accounts/errors.ts";
import {
  DeliveryEmptied,
  DeliveryNotFound,
  DeliveryPending,
  ResultsGone,
  WebhookAccountGone,
  WebhookAnswersFull,
  WebhookQueueFull,
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
  /** Durable when it returns. Throws WebhookAccountGone, WebhookQueueFull, WebhookAnswersFull. */
  accept(request: AcceptedRequest): Promise<void>;
  /** Throws WebhookAccountGone, as `rotate` does. */
  secret(account: AccountId): Promise<WebhookSecret>;
  /** The old secret signs beside the new one for a day. `ip`: for the audit log. */
  rotate(account: AccountId, ip: string): Promise<WebhookSecret>;
  /** Newest first. Throws BadCursor. */
  deliveries(account: AccountId, cursor: string | undefined, limit: number): Promise<DeliveryPage>;
  /** Throws DeliveryNotFound. */
  delivery(
    account: AccountId,
    webhookId: string,
  ): Promise<{ readonly delivery: DeliveryRecord; readonly attempts: readonly AttemptView[] }>;
  /** Begins the schedule anew. Throws DeliveryNotFound, DeliveryPending, DeliveryEmptied. */
  replay(account: AccountId, webhookId: string, ip: string): Promise<void>;
  /** JSON, by the signed link. Throws ResultsGone. */
  results(requestId: string, expires: string, signature: string): Promise<Buffer>;
  /** How requests are run: said once, by the edge that knows their bodies. */
  runWith(run: RunJob): void;
}

const lifeMs = 24 * 60 * 60 * 1000;
const mostWaiting: JobsLimit = { count: 5_000, bytes: 1024 ** 3 };
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
  readonly mostWaiting?: JobsLimit;
  readonly unixMs?: () => number;
}): Webhooks {
  const { jobs, deliveries: store, secrets, targets, links } = deps;
  const unixMs = deps.unixMs ?? Date.now;
  const most = deps.mostWaiting ?? mostWaiting;
  return {
    check: targets.check,
    runWith: deps.runWith,
    async accept({ caller, target, ...request }) {
      const job = { ...request, ...target, account: caller.account, key: caller.key, token: tokenOf(caller) };
      const outcome = await jobs.addJob(job, lifeMs, most);
      if (outcome === "gone") throw new WebhookAccountGone();
      if (outcome === "unheard") throw new WebhookAnswersFull();
      if (outcome === "full") throw new WebhookQueueFull(most);
      deps.onAccepted();
    },
    secret: secrets.get,
    rotate: secrets.rotate,
    async deliveries(account, cursor, limit) {
      if (cursor !== undefined && !idForm.test(cursor)) throw new BadCursor();
      const found = await store.deliveries(account, cursor, limit + 1);
      const page = found.slice(0, limit);
      return { deliveries: page, nextCursor: found.length > limit ? (page.at(-1)?.webhookId ?? null) : null };
    },
    async delivery(account, webhookId) {
      const found = await store.delivery(account, webhookId);
      if (!found) throw new DeliveryNotFound();
      return found;
    },
    async replay(account, webhookId, ip) {
      const outcome = await store.replay(account, webhookId, ip);
      if (outcome === "unknown") throw new DeliveryNotFound();
      if (outcome === "empty") throw new DeliveryEmptied();
      if (outcome === "pending") throw new DeliveryPending();
      deps.onReplayed();
    },
    async results(requestId, expires, signature) {
      if (!links.isGood(requestId, expires, signature, unixMs())) throw new ResultsGone();
      const found = await store.results(requestId as RequestId);
      if (!found) throw new ResultsGone();
      return found;
    },
  };
}
