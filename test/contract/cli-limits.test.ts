// The CLI's words about limits against the real edge.
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Edge, startEdge } from "../fakes/edge.ts";
import { ada, adminKey, apiKey } from "../fakes/ports.ts";
import { runCli } from "./cli-run.ts";

let edge: Edge;
beforeAll(async () => {
  edge = await startEdge();
});
afterAll(() => edge?.close());

const stoker = (key: string, ...args: string[]) => runCli(edge, key, args);

it("shows limits, the open request and the last rejection", async () => {
  expect((await stoker(apiKey, "rate-limit", "get")).out).toBe(
    "200 concurrent requests and 5000000 tokens per minute for each model\n",
  );
  const { out, err } = await stoker(apiKey, "gpu-pool", "get");
  expect(out).toMatch(/H100-80GB +0 +8 +16\n/);
  expect(err).toMatch(/gpr_01 is open[\s\S]*gpr_00 was rejected: no room/);
});

it("replaces the open GPU request by its id", async () => {
  const requests: unknown[] = [];
  const file = edge.deps.quotas.requestGpus;
  edge.deps.quotas.requestGpus = (account, request) => {
    requests.push({ account, ...request });
    return file(account, request);
  };
  const asked = await stoker(
    apiKey,
    "gpu-pool",
    "request",
    "--max",
    "other=9",
    "--max",
    "L4-24GB=2",
    "--reason",
    "launch",
  );
  expect(asked).toMatchObject({ out: "gpr_01\n", code: 0 });
  expect(requests).toEqual([
    { account: ada.account, max: { other: 9, "L4-24GB": 2 }, min: {}, reason: "launch", expectedId: "gpr_01" },
  ]);
  expect((await stoker(apiKey, "gpu-pool", "withdraw")).out).toBe("gpr_01 withdrawn\n");
});

it("lists requests with the operator's answers, and withdraws the open one", async () => {
  const { out } = await stoker(apiKey, "rate-limit", "requests");
  expect(out).toMatch(/rlr_01 .*400 concurrent requests +open/);
  expect(out).toMatch(/gpr_00 .*max 16 H100-80GB, min 1 H100-80GB +rejected +no room/);
  expect((await stoker(apiKey, "rate-limit", "withdraw")).out).toBe("rlr_01 withdrawn\n");
});

it("lets an operator list and decide requests and set limits", async () => {
  const { out } = await stoker(adminKey, "admin", "limits", "requests");
  expect(out).toMatch(/gpr_01 .*max 16 H100/);
  expect(out).toMatch(/rlr_01 .*400 concurrent requests/);
  expect((await stoker(adminKey, "admin", "limits", "approve", "rlr_01", "--note", "fine")).out).toBe(
    "rlr_01: approved\n",
  );
  const changes: unknown[] = [];
  const set = edge.deps.quotas.setLimits;
  edge.deps.quotas.setLimits = (account, change, act) => {
    changes.push(change, act.note);
    return set(account, change, act);
  };
  const flags = ["--requests", "default", "--max", "other=default", "--note", "back"];
  const done = await stoker(adminKey, "admin", "limits", "update", ada.account, ...flags);
  expect(done.out, done.err).toMatch(/other: 0 to 8/);
  expect(changes).toEqual([{ concurrent: null, max: { other: null } }, "back"]);
  expect((await stoker(apiKey, "admin", "limits", "get", ada.account)).err).toMatch(/operator's account/);
});

it("lets only an operator share a deployment's prefix cache", async () => {
  const acts: unknown[] = [];
  edge.deps.deployments.sharePrefixCache = async ({ id, isShared, act: { note } }) =>
    void acts.push(id, isShared, note);
  const args = ["admin", "prefix-cache", "deployment-7"];
  expect((await stoker(adminKey, ...args, "shared", "--note", "one company")).out).toBe(
    "deployment-7: prefix cache shared\n",
  );
  expect(acts).toEqual(["deployment-7", true, "one company"]);
  expect((await stoker(apiKey, ...args, "shared")).err).toMatch(/operator's account/);
  expect((await stoker(adminKey, ...args, "both")).code).toBe(2);
});
