// Which requests at the real edge are kept as rejected ones of their account.
import { afterAll, beforeAll, expect, it } from "vitest";
import { RejectionNotes } from "../../control-plane/billing/rejections.ts";
import { chat, type Edge, startEdge } from "../fakes/edge.ts";
import { ada } from "../fakes/ports.ts";

const notes = new RejectionNotes(() => 60_000);
let edge: Edge;
beforeAll(async () => {
  edge = await startEdge({ change: (deps) => ({ ...deps, rejections: notes }) });
});
afterAll(() => edge.close());

const path = "/v1/compat/chat/completions";

it("keeps errors of a known account with code, model, key and the client's id, and nothing of strangers and successes", async () => {
  expect((await edge.post(path, chat())).status).toBe(200);
  const unknown = await edge.post(path, chat({ model: "org/unknown" }), { headers: { "x-request-id": "mine" } });
  expect(unknown.status).toBe(404);
  expect((await edge.post(path, { ...(chat() as object), temperature: "hot" })).status).toBe(422);
  expect((await edge.post("/v1/inference/org/unknown", { input: "Hi" })).status).toBe(404);
  expect((await edge.post(path, chat(), { headers: { authorization: "Bearer stk_wrong" } })).status).toBe(401);
  const found = new Map<string, object>();
  const collect = () => {
    for (const { id: _, atMs: __, ...one } of notes.take()) found.set(`${one.status} ${one.route}`, one);
    return [...found.values()];
  };
  const one = { account: ada.account, key: ada.key, label: null, otherCount: 0 };
  await expect.poll(collect).toEqual([
    { ...one, status: 404, code: "model_not_found", model: "org/unknown", route: path, label: "mine" },
    { ...one, status: 422, code: "validation_error", model: "org/model", route: path },
    { ...one, status: 404, code: "model_not_found", model: "org/unknown", route: "/v1/inference/*" },
  ]);
});
