import { pino } from "pino";
import { expect, it } from "vitest";
import { createRequestLabels } from "../../../../control-plane/billing/request-labels.ts";
import type { RequestLabel } from "../../../../control-plane/billing/store.ts";
import type { AccountId, RequestId } from "../../../../proto/ids.ts";

it("of a mark the first 512 characters wait to be written, however long it came", async () => {
  const saved: RequestLabel[] = [];
  const store = { saveLabels: async (labels: readonly RequestLabel[]) => void saved.push(...labels) };
  const labels = createRequestLabels({ store, log: pino({ level: "silent" }) });
  labels.start();
  const long = "x".repeat(1_000_000);
  labels.note("request-1" as RequestId, "mine", "u:1" as AccountId, {
    cacheKey: long,
    source: "console",
  });
  await labels.stop();
  const kept = "x".repeat(512);
  expect(saved).toEqual([{ requestId: "request-1", label: "mine", account: "u:1", cacheKey: kept, source: "console" }]);
});
