// Webhooks over one delivery of one account; what is accepted is kept.
import type { Caller } from "../../control-plane/accounts/caller.ts";
import { deliveryNotFound, resultsGone } from "../../control-plane/webhooks/errors.ts";
import type { DeliveryRecord } from "../../control-plane/webhooks/store.ts";
import { createTargets } from "../../control-plane/webhooks/target.ts";
import type { AcceptedRequest, Webhooks } from "../../control-plane/webhooks/webhooks.ts";
import type { RequestId } from "../../proto/ids.ts";

export const deliveryOfAda: DeliveryRecord = {
  webhookId: "msg_01KAJ000000000000000000000",
  requestId: "RequestOfAda000000000000" as RequestId,
  event: null,
  url: "https://example.com/hook",
  state: "delivered",
  error: null,
  attempts: 1,
  lastStatus: 204,
  lastOutcome: "ok",
  createdAtMs: 1_786_000_000_000,
  nextAttemptAtMs: null,
  finishedAtMs: 1_786_000_001_000,
};

export interface FakeWebhooks extends Webhooks {
  readonly accepted: AcceptedRequest[];
}

export function fakeWebhooks(owner: Caller): FakeWebhooks {
  const accepted: AcceptedRequest[] = [];
  const secret = { secret: "whsec_AAAA", madeAtMs: 1_786_000_000_000, previousUntilMs: null };
  const targets = createTargets({ allowsPrivate: false, blocked: [] }, async (name) => {
    if (name === "inside.example.com") return ["93.184.216.34", "10.0.0.7"];
    return ["93.184.216.34"];
  });
  const known = (account: string, id: string) => account === owner.account && id === deliveryOfAda.webhookId;
  return {
    accepted,
    check: targets.check,
    accept: async (request) => void accepted.push(request),
    secret: async () => secret,
    rotate: async () => ({ ...secret, previousUntilMs: 1_786_000_086_400_000 }),
    deliveries: async (account) => ({
      deliveries: account === owner.account ? [deliveryOfAda] : [],
      nextCursor: null,
    }),
    async delivery(account, id) {
      if (!known(account, id)) throw deliveryNotFound();
      const attempt = { number: 1, atMs: 1_786_000_000_500, ms: 20, outcome: "ok", status: 204, answer: "" };
      return { delivery: deliveryOfAda, attempts: [attempt] };
    },
    async replay({ account }, id) {
      if (!known(account, id)) throw deliveryNotFound();
    },
    async results(requestId, _expires, signature) {
      if (requestId !== deliveryOfAda.requestId || signature !== "good") throw resultsGone();
      return Buffer.from('{"results":[]}');
    },
    runWith() {},
  };
}
