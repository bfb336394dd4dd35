import { expect, it } from "vitest";
import { createWebhookSecrets } from "../../../../control-plane/webhooks/secrets.ts";
import type { SecretRow } from "../../../../control-plane/webhooks/store.ts";

it("an account's secret is created at its first use only", async () => {
  let row: SecretRow | undefined;
  let sealed = 0;
  const secrets = createWebhookSecrets({
    store: {
      async secretOf(_, fresh) {
        row ??= { sealed: await fresh(), madeAtMs: 0, previousSealed: null, previousUntilMs: null };
        return row;
      },
      rotateSecret: async () => undefined,
    },
    seal: {
      async seal(_, secret) {
        sealed += 1;
        return Buffer.from(secret);
      },
      open: async (_, bytes) => bytes.toString(),
    },
  });
  const sign = () => secrets.sign("ada" as never, "msg_1", 0, Buffer.from("{}"));
  const signatures = [await sign(), await sign()];
  expect([new Set(signatures).size, sealed]).toEqual([1, 1]);
});
