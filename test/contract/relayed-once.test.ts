// Inference with an `Idempotency-Key`: it runs and is paid once, however often it is sent.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { wholeChat } from "../fakes/agent-data-plane.ts";
import { chat, type Edge, startEdge, text } from "../fakes/edge.ts";
import { apiKey, servedModel } from "../fakes/ports.ts";
import { form, startTaskEdge, type TaskEdge, wav } from "../fakes/task-edge.ts";

const patient = { timeout: 20_000 };
const path = "/v1/chat/completions";

describe("text under a key", () => {
  let edge: Edge;
  beforeEach(async () => {
    edge = await startEdge();
  });
  afterEach(() => edge.close());

  const ask = (body: unknown, key = "k1", at = path, signal?: AbortSignal) =>
    edge.post(at, body, { headers: { "idempotency-key": key }, ...(signal ? { signal } : {}) });

  it.each([
    ["/v1/completions", text()],
    ["/v1/chat/completions", chat()],
    ["/v1/chat/completions", chat({ service_tier: "priority" })],
  ])("%s runs once, and its repeats get the same bytes, marked, under a request id of their own", async (at, body) => {
    const first = await ask(body, "k1", at);
    const again = await ask(body, "k1", at);
    expect([first.status, again.status]).toEqual([200, 200]);
    expect(await again.text()).toBe(await first.text());
    expect(again.headers.get("content-type")).toBe(first.headers.get("content-type"));
    expect([first.headers.get("idempotent-replayed"), again.headers.get("idempotent-replayed")]).toEqual([
      null,
      "true",
    ]);
    const id = "x-stoker-request-id";
    expect(again.headers.get(id)).toMatch(/^[A-Za-z0-9]{24}$/);
    expect(again.headers.get(id)).not.toBe(first.headers.get(id));
    expect(edge.agent.asked).toHaveLength(1);
    expect(edge.budgets.holds).toHaveLength(1);
  });

  it("runs for each request without one, and once for each key", async () => {
    for (const key of [undefined, undefined, "k1", "k1", "k2"]) {
      const init = key === undefined ? {} : { headers: { "idempotency-key": key } };
      expect((await edge.post(path, chat(), init)).status).toBe(200);
    }
    expect(edge.agent.asked).toHaveLength(4);
  });

  it("is one request by all names of its path, and another one at another path", async () => {
    for (const at of ["/v1/compat/chat/completions", "/v1/openai/chat/completions", path])
      expect((await ask(chat(), "k1", at)).status).toBe(200);
    expect(edge.agent.asked).toHaveLength(1);
    expect((await ask(text(), "k1", "/v1/completions")).status).toBe(200);
    expect(edge.agent.asked).toHaveLength(2);
  });

  it("with another body is 422, naming the header, and is not run", async () => {
    await ask(chat());
    const other = await ask(chat({ temperature: 0 }));
    expect(other.status).toBe(422);
    expect(await other.json()).toMatchObject({ error: { code: "idempotency_key_reused", param: "idempotency-key" } });
    expect(edge.agent.asked).toHaveLength(1);
  });

  it("that is no key is 422", async () => {
    expect((await ask(chat(), "é")).status).toBe(422);
    expect(edge.agent.asked).toHaveLength(0);
  });

  it("in flight is 409 with Retry-After; cut by its client it is 409 from then on, since it was paid until then", async () => {
    edge.agent.script({ kind: "hang" });
    const cut = new AbortController();
    const running = ask(chat(), "k1", path, cut.signal).catch(() => "cut");
    await vi.waitFor(() => expect(edge.agent.asked).toHaveLength(1), patient);
    const second = await ask(chat());
    expect(second.status).toBe(409);
    expect(second.headers.get("x-should-retry")).toBe("false");
    expect(Number(second.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(await second.json()).toMatchObject({ error: { code: "idempotency_key_in_use" } });
    cut.abort();
    expect(await running).toBe("cut");
    await vi.waitFor(async () => {
      const after = await ask(chat());
      expect([after.status, (await after.json()).error.code]).toEqual([409, "already_completed"]);
    }, patient);
    expect(edge.agent.asked).toHaveLength(1);
  });

  it("streamed is streamed as ever, and a repeat is 409 already_completed", async () => {
    edge.agent.script({ kind: "stream" });
    const first = await ask(chat({ stream: true }));
    expect(first.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    expect(await first.text()).toContain("data: [DONE]");
    const again = await ask(chat({ stream: true }));
    expect(again.status).toBe(409);
    expect(again.headers.get("x-should-retry")).toBe("false");
    expect(await again.json()).toMatchObject({ error: { code: "already_completed" } });
    expect(edge.agent.asked).toHaveLength(1);
  });

  it("streamed and broken in the middle was paid: a repeat is 409", async () => {
    edge.agent.script({ kind: "break", afterFrames: 2 });
    expect(await (await ask(chat({ stream: true }))).text()).toContain('"upstream_error"');
    expect((await ask(chat({ stream: true }))).status).toBe(409);
    expect(edge.agent.asked).toHaveLength(1);
  });

  it("is free again after a failure before the start: 5xx and 429", async () => {
    edge.agent.script(
      { kind: "refuse", refusal: "busy", status: 429 },
      { kind: "break", afterFrames: 0 },
      { kind: "whole" },
    );
    const statuses = [];
    for (let i = 0; i < 4; i++) statuses.push((await ask(chat())).status);
    expect(statuses).toEqual([429, 502, 200, 200]);
    expect(edge.agent.asked).toHaveLength(3);
  });

  it("keeps a refusal that the request itself earned", async () => {
    const first = await ask(chat({ model: "org/none" }));
    edge.models.models = [servedModel({ name: "org/none" })];
    const again = await ask(chat({ model: "org/none" }));
    expect([first.status, again.status]).toEqual([404, 404]);
    expect(await again.text()).toBe(await first.text());
  });

  it("gives an answer again whose model is gone since", async () => {
    await ask(chat());
    edge.models.models = [];
    expect(await (await ask(chat())).text()).toBe(wholeChat);
  });

  it("above what is kept is given once, whole, and a repeat is 409", async () => {
    const body = JSON.stringify({ text: "x".repeat(5 * 1024 * 1024) });
    edge.agent.script({ kind: "whole", body });
    expect(await (await ask(chat())).text()).toBe(body);
    expect((await ask(chat())).status).toBe(409);
    expect(edge.agent.asked).toHaveLength(1);
  });

  it("in pieces below what is kept is given again whole", async () => {
    const body = JSON.stringify({ text: "y".repeat(300_000) });
    edge.agent.script({ kind: "whole", body });
    expect(await (await ask(chat())).text()).toBe(body);
    await vi.waitFor(async () => expect(await (await ask(chat())).text()).toBe(body), patient);
    expect(edge.agent.asked).toHaveLength(1);
  });
});

describe("every other task under a key", () => {
  let tasks: TaskEdge;
  beforeAll(async () => {
    tasks = await startTaskEdge();
  });
  beforeEach(() => tasks.offer({}));
  afterAll(() => tasks.close());

  const vectors = {
    object: "list",
    data: [{ object: "embedding", index: 0, embedding: [1] }],
    usage: { prompt_tokens: 1 },
  };
  const picture = { created: 1, data: [{ b64_json: "aGk=" }] };
  const pixel = new Blob([Buffer.from("iVBORw0KGgo=", "base64")], { type: "image/png" });
  const model = "org/model";
  const sound = { contentType: "audio/wav", pieces: [Buffer.from(wav(1)), Buffer.from([0, 255, 128, 10])] };
  const json = (answer: object) => ({ contentType: "application/json", pieces: [JSON.stringify(answer)] });

  it.each([
    ["/v1/embeddings", { model, input: "x" }, json(vectors)],
    ["/v1/inference/org/model", { inputs: ["x"] }, json(vectors)],
    ["/v1/images/generations", { model, prompt: "x" }, json(picture)],
    ["/v1/images/edits", form({ model, prompt: "x", image: pixel }), json(picture)],
    ["/v1/images/variations", form({ model, image: pixel }), json(picture)],
    ["/v1/audio/speech", { model, input: "x" }, sound],
    ["/v1/text-to-speech/af_bella", { model_id: model, text: "x" }, sound],
    ["/v1/text-to-speech/af_bella/stream", { model_id: model, text: "x" }, sound],
    ["/v1/audio/transcriptions", form({ model, file: new Blob([wav(1)]) }), json({ text: "hi" })],
    ["/v1/audio/translations", form({ model, file: new Blob([wav(1)]) }), json({ text: "hi" })],
  ])("%s runs once, and its repeats get the same bytes", async (at, body, answer) => {
    tasks.offer(at.includes("inference") ? { task: "embeddings" } : {});
    tasks.engine.answer(answer);
    const before = tasks.engine.requests.length;
    const send = () =>
      fetch(tasks.edge.url + at, {
        method: "POST",
        headers: {
          authorization: `Bearer ${apiKey}`,
          "idempotency-key": "k1",
          ...(body instanceof FormData ? {} : { "content-type": "application/json" }),
        },
        body: body instanceof FormData ? body : JSON.stringify(body),
      });
    const first = await send();
    const told = Buffer.from(await first.arrayBuffer());
    expect(first.status, told.toString()).toBe(200);
    await vi.waitFor(async () => {
      const again = await send();
      const said = Buffer.from(await again.arrayBuffer());
      expect([again.status, again.headers.get("idempotent-replayed")]).toEqual([200, "true"]);
      expect(said.equals(told)).toBe(true);
      for (const name of ["content-type", "character-cost"])
        expect(again.headers.get(name)).toBe(first.headers.get(name));
    }, patient);
    expect(tasks.engine.requests.length - before).toBe(1);
    expect(tasks.edge.budgets.holds).toHaveLength(1);
  });
});
