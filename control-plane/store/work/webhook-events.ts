import type { AccountId, KeyId, RequestId } from "../../../proto/ids.ts";
import type { Trx } from "../core/schema.ts";
import { now } from "../core/time.ts";

export interface EventCall {
  readonly event: "limit.alert";
  readonly webhookId: string;
  readonly account: AccountId;
  readonly url: string;
  /** Host and port of the URL. */
  readonly host: string;
  readonly body: Buffer;
}

/** Queues a webhook call that is no request's result. Every call has a job, so an ended one without a request stands for it. */
export async function queueEvent(trx: Trx, { event, webhookId, account, url, host, body }: EventCall): Promise<void> {
  const common = { requestId: webhookId as string as RequestId, accountId: account, url, host };
  await trx
    .insertInto("webhookJob")
    .values({
      ...common,
      keyId: "" as KeyId,
      label: null,
      source: null,
      model: "",
      body: null,
      origin: "",
      state: "succeeded",
      expiresAt: now,
      finishedAt: now,
      claimId: null,
      lockedUntil: null,
      errorCode: null,
      errorMessage: null,
    })
    .execute();
  await trx
    .insertInto("webhookDelivery")
    .values({ ...common, webhookId, event, body, results: null, state: "pending" })
    .execute();
}
