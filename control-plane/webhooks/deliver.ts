// The outbox at work: each call that is due is made, noted, and planned again until the receiver takes it. At least once: a
// control plane that dies in between leaves a claim that runs out.
import type { Logger } from "pino";
import { randomId } from "../../proto/ids.ts";
import { AccountLoad, mib } from "./account-load.ts";
import { type ClaimLoop, createClaimLoop } from "./claim-loop.ts";
import { HostCalls, mostOfHost } from "./host-calls.ts";
import type { WebhookMetrics } from "./metrics.ts";
import { nextDelayMs } from "./schedule.ts";
import type { WebhookSecrets } from "./secrets.ts";
import { type SendDeps, send } from "./send.ts";
import type { ClaimedDelivery, WebhookDeliveryStore } from "./store.ts";

const mostAtOnce = 256;
/** Bodies have 5 MiB at most. */
const limits = { mostOfAccount: 64, mostBytes: 128 * mib, mostBytesOfAccount: 64 * mib };
/** Longer than a call takes: whoever holds a claim after it is dead. */
const claimMs = 60_000;

export interface DeliverDeps extends SendDeps {
  readonly store: Pick<WebhookDeliveryStore, "claimDeliveries" | "noteAttempt">;
  readonly secrets: Pick<WebhookSecrets, "sign">;
  readonly metrics: WebhookMetrics;
  readonly log: Logger;
  /** 1, or less in tests: the schedule, and apart from it the claims, run that much faster. */
  readonly clockScale: number;
  readonly claimScale: number;
  readonly unixMs?: () => number;
  readonly random?: () => number;
}

export function createDeliveries(deps: DeliverDeps): ClaimLoop {
  const unixMs = deps.unixMs ?? Date.now;
  const random = deps.random ?? Math.random;
  const hosts = new HostCalls();
  const load = new AccountLoad(limits);
  const lockMs = claimMs * deps.claimScale;

  async function work(delivery: ClaimedDelivery): Promise<void> {
    const { webhookId, account, host, body } = delivery;
    // What fails before a call or after it says nothing of the receiver.
    let isAlive: boolean | undefined;
    try {
      await attempt(delivery, (heard) => {
        isAlive = heard;
      });
    } finally {
      hosts.ended(account, host, isAlive);
      load.ended(account, body.length);
    }
    deps.log.debug({ webhookId }, "webhook attempt over");
  }

  async function attempt(delivery: ClaimedDelivery, heard: (isAlive: boolean | undefined) => void): Promise<void> {
    const { webhookId, account, body, claim, url } = delivery;
    const atMs = unixMs();
    const beganMs = performance.now();
    const headers = {
      "content-type": "application/json",
      "user-agent": "stoker-webhooks/1",
      "webhook-id": webhookId,
      "webhook-timestamp": String(Math.floor(atMs / 1000)),
      "webhook-signature": await deps.secrets.sign(account, webhookId, atMs, body),
    };
    const sent = await send(deps, url, headers, body);
    heard(sent.isAlive);
    const ms = Math.round(performance.now() - beganMs);
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
    mostAtOnce,
    idleMs: 1_000,
    log: deps.log,
    work,
    async claim(limit) {
      const claimed = await deps.store.claimDeliveries({
        claim: randomId(16),
        limit,
        lockMs,
        ...load.room(),
        mostOfHost,
        roomOfHost: hosts.room(),
        silent: hosts.silent(),
      });
      for (const { host, account, body } of claimed) {
        hosts.began(account, host);
        load.began(account, body.length);
      }
      return claimed;
    },
  });
}
