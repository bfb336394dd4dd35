import { describe, it } from "vitest";
import { adminKey } from "../fakes/ports.ts";
import { topId } from "../fakes/top.ts";
import { check, type Row } from "./status-row.ts";

const call = (query: string) => `GET /v1/admin/top?${query}` as const;
const account = { uid: "u:1000000000001", email: "ada@example.com" };
const model = {
  ...{ id: topId, name: "offered", kind: "model", account, requests_per_second: 1.5, tokens_per_second: 200 },
  ...{ gpus_held: 2, gpu_use_ratio: 0.75, running_requests: 3, waiting_requests: 1, spend_last_hour_usd: 4 },
};
const deployment = { ...model, name: "ada/my-llm" };
const adapter = { id: null, name: "adapter", requests_per_second: 10, gpus_held: 0, spend_last_hour_usd: 1 };
const customer = { id: account.uid, name: account.email, requests_per_second: 2, gpus_held: 2, spend_last_hour_usd: 5 };
const host = { id: "host-1", name: "gpu-1", requests_per_second: null, tokens_per_second: 40.5, gpu_use_ratio: 0.75 };

const rows: readonly Row[] = [
  { call: call("by=model"), status: 200, key: adminKey, holds: { order: "requests", rows: [adapter, model] } },
  { call: call("by=deployment"), status: 200, key: adminKey, holds: { rows: [deployment] } },
  { call: call("by=model&order=gpus&limit=1"), status: 200, key: adminKey, holds: { rows: [model] } },
  { call: call("by=customer&order=spend"), status: 200, key: adminKey, holds: { rows: [customer] } },
  { call: call("by=host"), status: 200, key: adminKey, holds: { order: "gpu_use", rows: [host] } },
  { call: call("by=model"), status: 401, key: null },
  { call: call("by=model"), status: 403, holds: { code: "admin_only" } },
  { call: "GET /v1/admin/top", status: 422, key: adminKey },
  { call: call("by=dog"), status: 422, key: adminKey },
  { call: call("by=host&order=name"), status: 422, key: adminKey },
  { call: call("by=host&limit=0"), status: 422, key: adminKey },
];

describe("what uses the most", () => {
  it.each(rows)("$call answers $status", check);
});
