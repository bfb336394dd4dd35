// Sends due deliveries of the outbox, records each attempt and schedules the next until the receiver accepts. At least once:
// the claim of a control plane that dies expires.

import type { Logger } from "pino";
import { randomId } from "../../proto/ids.ts";
import { steadyTime } from "../../proto/steady-time.ts";
import { unixSeconds } from "../../proto/unix-seconds.ts";
import { AccountLoad, mib } from "./account-load.ts";
import { type ClaimLoop, createClaimLoop } from "./claim-loop.ts";
import { HostCalls, maxPerHost } from "./host-calls.ts";
import type { WebhookMetrics } from "./metrics.ts";
import { nextDelayMs } from "./schedule.ts";
import type { WebhookSecrets } from "./secrets.ts";
import { type SendDeps, send } from "./send.ts";
import type { ClaimedDelivery, WebhookDeliveryStore } from "./store.ts";

const maxConcurrent = 256;
/** Bodies are at most 5 MiB. */
const limits = { maxPerAccount: 64, maxBytes: 128 * mib, maxBytesPerAccount: 64 * mib };
/** Longer than a call takes: a claim that expired belongs to a dead process. */
const claimMs = 60_000;

export interface DeliverDeps extends SendDeps {
  readonly store: Pick<WebhookDeliveryStore, "claimDeliveries" | "noteAttempt">;
  readonly secrets: Pick<WebhookSecrets, "sign">;
  readonly metrics: WebhookMetrics;
  readonly log: Logger;
  /** 1 in production. Smaller in tests: the schedule and, separately, the claims run faster by this factor. */
  readonly clockScale: number;
  readonly claimScale: number;
  readonly unixMs?: () => number;
  readonly random?: () => number;
}

export function createDeliveries(deps: DeliverDeps): ClaimLoop {
  const unixMs = deps.unixMs ?? steadyTime.nowMs;
  const random = deps.random ?? Math.random;
  const hosts = new HostCalls();
  const load = new AccountLoad(limits);
  const lockMs = claimMs * deps.claimScale;

  async function work(delivery: ClaimedDelivery): Promise<void> {
    const { webhookId, account, host, body } = delivery;
    // A failure before or after the call says nothing about the receiver.
    let isAlive: boolean | undefined;
    try {
      await attempt(delivery, (observed) => {
        isAlive = observed;
      });
    } finally {
      hosts.ended(account, host, isAlive);
      load.ended(account, body.length);
    }
    deps.log.debug({ webhookId }, "webhook attempt over");
  }

  async function attempt(delivery: ClaimedDelivery, onResult: (isAlive: boolean | undefined) => void): Promise<void> {
    const { webhookId, account, body, claim, url } = delivery;
    const atMs = unixMs();
    const startedMs = performance.now();
    const headers = {
      "content-type": "application/json",
      "user-agent": "stoker-webhooks/1",
      "webhook-id": webhookId,
      "webhook-timestamp": String(unixSeconds(atMs)),
      "webhook-signature": await deps.secrets.sign(account, webhookId, atMs, body),
    };
    const sent = await send(deps, url, headers, body);
    onResult(sent.isAlive);
    const ms = Math.round(performance.now() - startedMs);
    const delayMs = sent.outcome === "ok" ? undefined : nextDelayMs(delivery.tries + 1, sent, random());
    const isExhausted = sent.outcome !== "ok" && delayMs === undefined;
    const { outcome, status, answer } = sent;
    const nextMs = delayMs === undefined ? undefined : delayMs * deps.clockScale;
    await deps.store.noteAttempt({ webhookId, claim, atMs, ms, outcome, status, answer, nextMs });
    deps.metrics.attempted(outcome, ms / 1000);
    if (isExhausted) deps.metrics.exhausted();
    const line = { webhookId, account, attempt: delivery.attempts + 1, outcome, status, ms, isExhausted };
    if (isExhausted) deps.log.warn(line, "webhook attempt");
    else deps.log.info(line, "webhook attempt");
  }

  return createClaimLoop({
    what: "webhook deliveries",
    maxConcurrent,
    idleMs: 1_000,
    log: deps.log,
    work,
    async claim(limit) {
      const claimed = await deps.store.claimDeliveries({
        claim: randomId(16),
        limit,
        lockMs,
        ...load.capacity(),
        maxPerHost,
        capacityOfHost: hosts.capacity(),
        silent: hosts.silent(),
      });
      for (const { host, account, body } of claimed) {
        hosts.started(account, host);
        load.started(account, body.length);
      }
      return claimed;
    },
  });
}
