// What the time series count of requests at the real edge.
import { afterAll, beforeAll, expect, it } from "vitest";
import { RequestTally } from "../../control-plane/series/request-tally.ts";
import { chat, type Edge, startEdge } from "../fakes/edge.ts";
import { ada } from "../fakes/ports.ts";

const tally = new RequestTally(() => 60_000);
let edge: Edge;
beforeAll(async () => {
  edge = await startEdge({ change: (deps) => ({ ...deps, tally }) });
});
afterAll(() => edge.close());

const path = "/v1/compat/chat/completions";

it("counts responses and refusals of an account's requests by model, and nothing of strangers and of other paths", async () => {
  await (await edge.post(path, chat({ stream: true }))).text();
  await (await edge.post(path, chat())).text();
  expect((await edge.post(path, chat({ model: "org/unknown" }))).status).toBe(404);
  expect((await edge.post(path, chat(), { headers: { authorization: "Bearer stk_wrong" } })).status).toBe(401);
  await fetch(`${edge.url}/v1/models`, { headers: { authorization: "Bearer stk_test_key_of_ada" } });
  const sums = new Map<string, number[]>();
  const collect = () => {
    for (const { account, model, sums: one } of tally.take().rows) {
      const first = one.firstMs.reduce((sum, n) => sum + n, 0);
      sums.set(`${account} ${model}`, [one.requests, one.clientErrors, one.serverErrors, one.outputTokens, first]);
    }
    return Object.fromEntries(sums);
  };
  await expect.poll(collect).toEqual({
    [`${ada.account} `]: [3, 1, 0, 6, 1],
    [`${ada.account} org/model`]: [2, 0, 0, 6, 1],
    " org/model": [2, 0, 0, 6, 1],
    " ": [3, 1, 0, 6, 1],
  });
});
