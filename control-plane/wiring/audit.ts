// The chain of the audit log, and its receivers outside of this installation.
import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import type { Logger } from "pino";
import { Webhook } from "standardwebhooks";
import { unixSeconds } from "../../proto/unix-seconds.ts";
import { createAuditChain } from "../accounts/audit-chain.ts";
import { type AuditReceiver, createAuditDelivery } from "../accounts/audit-delivery.ts";
import type { ControlPlaneConfig } from "../config.ts";
import { createAuditChainStore } from "../store/accounts/audit-chain-store.ts";
import type { OpenDatabase } from "../store/core/database.ts";
import { send } from "../webhooks/send.ts";
import { createTargets } from "../webhooks/target.ts";

export async function createAudit(deps: {
  readonly db: OpenDatabase["db"];
  readonly settings: ControlPlaneConfig["audit"];
  readonly log: Logger;
}) {
  const { webhook, s3 } = deps.settings;
  const store = createAuditChainStore(deps.db);
  const chain = createAuditChain({ store });
  const receivers = [...(webhook ? [webhookReceiver(webhook)] : []), ...(s3 ? [await bucketReceiver(s3)] : [])];
  const delivery = createAuditDelivery({ store, receivers, log: deps.log });
  return {
    chain,
    seal: chain.seal,
    /** Undefined: there are no receivers. */
    deliver: receivers.length > 0 ? delivery.run : undefined,
  };
}

type Settings = ControlPlaneConfig["audit"];

/** Signed as webhooks of accounts are. The operator chose the address, so it may be in a private network. */
function webhookReceiver({ url, secret }: NonNullable<Settings["webhook"]>): AuditReceiver {
  const targets = createTargets({ allowsPrivate: true, blocked: [] });
  const signer = new Webhook(secret);
  return {
    name: receiverName(url),
    async send({ first, last, body }, signal) {
      const id = `audit_${first}_${last}`;
      const at = new Date();
      const headers = {
        "content-type": "application/x-ndjson",
        "user-agent": "stoker-webhooks/1",
        "webhook-id": id,
        "webhook-timestamp": String(unixSeconds(at.getTime())),
        "webhook-signature": signer.sign(id, at, body.toString()),
      };
      const { outcome, status, answer } = await send({ targets, signal }, url, headers, body);
      if (outcome !== "ok") throw new Error(`the receiver of the audit log: ${outcome} ${status ?? ""} ${answer}`);
    },
  };
}

/** Without path and query, which may hold a token: the name is stored and logged. */
const receiverName = (url: string): string =>
  `webhook ${new URL(url).origin} ${createHash("sha256").update(url).digest("hex").slice(0, 16)}`;

async function bucketReceiver(settings: NonNullable<Settings["s3"]>): Promise<AuditReceiver> {
  // Loaded only when needed, because the client is large.
  const { createS3Blobs } = await import("../blobs/s3-blobs.ts");
  const blobs = createS3Blobs(settings);
  const digits = (seq: bigint) => String(seq).padStart(12, "0");
  return {
    name: `s3 ${settings.endpoint ?? ""} ${settings.bucket}/${settings.prefix}`,
    // By the first row: rows that are sent again replace the object of the attempt before.
    send: ({ first, body }, signal) =>
      blobs.put(`${digits(first)}.jsonl`, Readable.from([body], { objectMode: false }), signal),
  };
}
