import { afterAll, beforeAll, expect, it } from "vitest";
import { chat, type Edge, startEdge } from "../fakes/edge.ts";
import { apiKey } from "../fakes/ports.ts";

let edge: Edge;
beforeAll(async () => {
  edge = await startEdge();
});
afterAll(() => edge.close());

const path = "/v1/compat/chat/completions";

it("gives a thousand requests with one x-request-id ids of their own", async () => {
  const ids = new Set<string | null>();
  for (let batch = 0; batch < 20; batch++) {
    const answers = await Promise.all(
      Array.from({ length: 50 }, () => edge.post(path, chat(), { headers: { "x-request-id": "mine" } })),
    );
    for (const answer of answers) {
      ids.add(answer.headers.get("x-stoker-request-id"));
      expect(answer.headers.get("x-request-id")).toBe("mine");
      await answer.arrayBuffer();
    }
  }
  expect(ids.size).toBe(1000);
  expect(new Set(edge.labels.map((label) => label.requestId))).toEqual(ids);
  expect(new Set(edge.budgets.holds.map((hold) => hold.request.requestId)).size).toBe(1000);
});

it.each(["with space", "x".repeat(65), "a/b", ""])("an x-request-id of %j is not taken", async (label) => {
  const answer = await edge.post(path, chat(), { headers: { "x-request-id": label } });
  expect(answer.headers.get("x-request-id")).toBe(answer.headers.get("x-stoker-request-id"));
});

it("logs the outcome without key, prompt or URL", async () => {
  const answer = await edge.post(
    `${path}?key=${apiKey}`,
    chat({ messages: [{ role: "user", content: "my secret diary" }] }),
  );
  await answer.arrayBuffer();
  await fetch(`${edge.url}/payment/usage/${apiKey}`, { headers: { authorization: `Bearer ${apiKey}` } });
  const id = answer.headers.get("x-stoker-request-id");
  await expect
    .poll(() => edge.logLines.find((line) => line["requestId"] === id))
    .toMatchObject({
      route: path,
      method: "POST",
      status: 200,
      model: "org/model",
      account: "u:1000000000001",
      inputTokens: 6,
      cachedTokens: 2,
      outputTokens: 3,
      attempts: 1,
      instance: "instance-1",
    });
  const log = JSON.stringify(edge.logLines);
  expect(log).not.toContain(apiKey);
  expect(log).not.toContain("diary");
  expect(log).toContain("/payment/usage/:api_token");
});

it("metrics name routes by pattern and models by their resolved name alone", async () => {
  await (await edge.post(path, chat({ model: "nobody/knows" }))).arrayBuffer();
  await fetch(`${edge.url}/some/where/else`);
  await expect.poll(() => edge.registry.metrics()).toContain('route="_unknown"');
  const page = await edge.registry.metrics();
  expect(page).toContain(`http_request_duration_seconds_count{method="POST",route="${path}",status="404"}`);
  expect(page).toContain('gen_ai_request_model="_unknown"');
  expect(page).toContain('gen_ai_request_model="org/model"');
  expect(page).toContain(`http_requests_in_flight{route="${path}"} 0`);
  expect(page).not.toContain("nobody/knows");
  expect(page).not.toContain("some/where");
});

it("live metrics speak of the last minute's requests", async () => {
  const live = (await (await fetch(`${edge.url}/v1/metrics/live`)).json()) as Record<string, number | null>;
  expect(live["requests_per_second"]).toBeGreaterThan(16);
  expect(live["tokens_per_second"]).toBeGreaterThan(50);
  expect(live["time_to_first_token"]).toBeGreaterThan(0);
  expect(live["total_tflops"]).toBeNull();
});
