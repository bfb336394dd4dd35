import pino from "pino";
import { expect, it } from "vitest";
import { createClaimLoop } from "../../../../control-plane/webhooks/claim-loop.ts";

it("a stopping loop claims nothing more, and waits for running jobs", async () => {
  const ending = new AbortController();
  let claims = 0;
  let ended = 0;
  const loop = createClaimLoop<number>({
    what: "work",
    maxConcurrent: 100,
    idleMs: 1_000,
    log: pino({ level: "silent" }),
    claim: async () => {
      claims += 1;
      if (claims === 3) ending.abort();
      return [claims];
    },
    work: async () => {
      await new Promise((resolve) => setImmediate(resolve));
      ended += 1;
    },
  });
  await loop.run(ending.signal);
  expect([claims, ended]).toEqual([3, 3]);
});
