import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, beforeEach, expect, it, onTestFinished } from "vitest";
import { createHubSearch, readModels } from "../../../../control-plane/catalog/hub-search.ts";
import { taskOfHub } from "../../../../control-plane/deployments/tasks.ts";
import type { AccountId } from "../../../../proto/ids.ts";
import { type FileServer, startFileServer } from "../../../fakes/file-server.ts";

const [ada, bob] = ["u:1", "u:2"] as AccountId[] as [AccountId, AccountId];
const found = [
  { id: "org/a", pipeline_tag: "text-generation", downloads: 7, likes: 2, gated: "manual", tags: ["gguf", "en"] },
  { id: "org/b", downloads: -1, likes: "many", gated: false, tags: ["onnx", "safetensors"] },
  { id: "../etc", downloads: 1 },
  "org/c",
];

let hub: FileServer;
let asked: URL[];
let answer: (send: (status: number, body: unknown) => void, response: ServerResponse) => void;
beforeAll(async () => {
  hub = await startFileServer(() => (request, response) => {
    asked.push(new URL(request.url ?? "", "http://hub"));
    answer((status, body) => response.writeHead(status).end(JSON.stringify(body)), response);
  });
});
beforeEach(() => {
  asked = [];
  answer = (send) => send(200, found);
});
afterAll(() => hub.close());

const query = { search: "llama 3", tasks: ["text-generation"], limit: 5 };

it("asks the hub for the words and the task, and leaves out what is no repository", async () => {
  const models = await createHubSearch(`${hub.url}/`).search(ada, query);
  expect(models).toEqual([
    { name: "org/a", task: "text-generation", downloads: 7, likes: 2, isGated: true, formats: ["gguf"] },
    { name: "org/b", task: undefined, downloads: 0, likes: 0, isGated: false, formats: ["safetensors", "onnx"] },
  ]);
  const { pathname, searchParams } = asked[0] as URL;
  expect(pathname).toBe("/api/models");
  expect(searchParams.get("search")).toBe("llama 3");
  expect(searchParams.get("pipeline_tag")).toBe("text-generation");
  expect(searchParams.get("limit")).toBe("5");
});

it("asks once for each name that the hub has for a task, and merges by downloads", async () => {
  const { search } = createHubSearch(hub.url);
  answer = (send) => send(200, [{ id: `org/${asked.length}`, downloads: asked.length }]);
  const models = await search(ada, { ...query, tasks: ["feature-extraction", "sentence-similarity"], limit: 1 });
  expect(asked.map((url) => url.searchParams.get("pipeline_tag")).sort()).toEqual([
    "feature-extraction",
    "sentence-similarity",
  ]);
  expect(models.map(({ name }) => name)).toEqual(["org/2"]);
});

it("keeps a result for a minute, and a failure of the same search for ten seconds", async () => {
  let nowMs = 0;
  const { search } = createHubSearch(hub.url, () => nowMs);
  answer = (send) => send(500, {});
  await expect(search(ada, query)).rejects.toMatchObject({ code: "hub_unavailable", kind: "unavailable" });
  answer = (send) => send(200, found);
  await expect(search(bob, query)).rejects.toMatchObject({ code: "hub_unavailable" });
  expect(asked).toHaveLength(1);
  nowMs = 10_000;
  await search(ada, query);
  await search(bob, query);
  await search(bob, { ...query, limit: 6 });
  expect(asked).toHaveLength(3);
  nowMs = 69_999;
  await search(bob, query);
  nowMs = 70_000;
  await search(bob, query);
  expect(asked).toHaveLength(4);
});

it.each([
  [429, 60_000],
  [503, 10_000],
])("asks nothing for a while after the hub answered %i", async (status, pauseMs) => {
  let nowMs = 0;
  const { search } = createHubSearch(hub.url, () => nowMs);
  await search(ada, query);
  answer = (send) => send(status, {});
  await expect(search(ada, { ...query, search: "a" })).rejects.toMatchObject({ code: "hub_unavailable" });
  nowMs = pauseMs - 1;
  await expect(search(bob, { ...query, search: "b" })).rejects.toMatchObject({ code: "hub_unavailable" });
  // What is kept needs no hub.
  await search(bob, query);
  expect(asked).toHaveLength(2);
  answer = (send) => send(200, found);
  nowMs = pauseMs;
  expect(await search(bob, { ...query, search: "b" })).toHaveLength(2);
});

it.each([
  ["too long", (response: ServerResponse) => void response.end(`["${"x".repeat(9_000_000)}"]`)],
  ["no JSON", (response: ServerResponse) => void response.end("<html>")],
  ["cut", (response: ServerResponse) => void response.socket?.destroy()],
])("goes on asking for others after a response that is %s", async (_, reply) => {
  const { search } = createHubSearch(hub.url);
  answer = (_send, response) => reply(response);
  await expect(search(ada, { ...query, search: "a" })).rejects.toMatchObject({ code: "hub_unavailable" });
  answer = (send) => send(200, found);
  expect(await search(bob, { ...query, search: "b" })).toHaveLength(2);
});

it.each([
  ["ten seconds have passed", false],
  ["another request gets a response", true],
])("asks nothing after a failed connection until %s", async (_, isAnswered) => {
  let nowMs = 0;
  const sends: (() => void)[] = [];
  const open = async (port: number) => {
    const server = createServer((request, response) => {
      const send = () => void response.setHeader("connection", "close").end("[]");
      if (request.url?.includes("slow")) sends.push(send);
      else send();
    });
    onTestFinished(() => void server.close());
    await once(server.listen(port, "127.0.0.1"), "listening");
    return server;
  };
  const before = await open(0);
  const { port } = before.address() as AddressInfo;
  const { search } = createHubSearch(`http://127.0.0.1:${port}`, () => nowMs);
  const words = (text: string) => ({ ...query, search: text });
  const slow = search(ada, words("slow"));
  await expect.poll(() => sends.length).toBe(1);
  // No more connections; the one in use stays open.
  before.close();
  await expect(search(bob, words("b"))).rejects.toMatchObject({ code: "hub_unavailable" });
  await open(port);
  await expect(search(bob, words("c"))).rejects.toMatchObject({ code: "hub_unavailable" });
  if (isAnswered) {
    sends[0]?.();
    await slow;
  } else {
    onTestFinished(async () => {
      sends[0]?.();
      await slow;
    });
    nowMs = 10_000;
  }
  expect(await search(bob, words("d"))).toEqual([]);
});

it("asks at most twenty times a minute for one account, and goes on for others", async () => {
  let nowMs = 30_000;
  const { search } = createHubSearch(hub.url, () => nowMs);
  const words = (n: number) => ({ ...query, search: `${n}` });
  for (let n = 0; n < 20; n++) await search(ada, words(n));
  await expect(search(ada, words(20))).rejects.toMatchObject({
    code: "too_many_searches",
    kind: "rate_limited",
    retryAfterSeconds: 30,
  });
  // Kept results are free.
  await search(ada, words(3));
  await search(bob, words(20));
  expect(asked).toHaveLength(21);
  nowMs = 60_000;
  await search(ada, words(21));
  expect(asked).toHaveLength(22);
});

it("runs two searches of an account at once, and does not delay another account's", async () => {
  const { search } = createHubSearch(hub.url);
  const sends: (() => void)[] = [];
  answer = (send) => void sends.push(() => send(200, []));
  const words = (text: string) => ({ ...query, search: text });
  const running = [search(ada, words("a1")), search(ada, words("a2")), search(ada, words("a3"))];
  await expect.poll(() => asked.length).toBe(2);
  running.push(search(bob, words("b1")));
  await expect.poll(() => asked.length).toBe(3);
  expect(asked.map((url) => url.searchParams.get("search"))).toEqual(["a1", "a2", "b1"]);
  for (const send of sends) send();
  await expect.poll(() => asked.length).toBe(4);
  sends.at(-1)?.();
  await Promise.all(running);
});

it("holds the slot of a search until its last request has ended", async () => {
  const { search } = createHubSearch(hub.url);
  const sends: (() => void)[] = [];
  answer = (send) => (asked.length === 1 ? send(500, {}) : void sends.push(() => send(200, [])));
  const tasks = ["feature-extraction", "sentence-similarity"];
  const first = search(ada, { ...query, tasks }).catch((error) => error.code);
  await expect.poll(() => sends.length).toBe(1);
  const others = ["a2", "a3"].map((text) => search(ada, { ...query, search: text }));
  await expect.poll(() => sends.length).toBe(2);
  others.push(search(bob, { ...query, search: "b1" }));
  await expect.poll(() => sends.length).toBe(3);
  expect(asked.map((url) => url.searchParams.get("search"))).toEqual([query.search, query.search, "a2", "b1"]);
  sends.shift()?.();
  expect(await first).toBe("hub_unavailable");
  await expect.poll(() => sends.length).toBe(3);
  for (const send of sends) send();
  await Promise.all(others);
});

it("reads a task as text only, and none that is longer than any of the hub's", () => {
  const models = readModels([{ id: "org/a", pipeline_tag: "x".repeat(65) }]);
  expect(models[0]?.task).toBeUndefined();
  expect(taskOfHub("constructor")).toBe("constructor");
  expect(taskOfHub("sentence-similarity")).toBe("embeddings");
});

it("says that the hub is disabled, cannot be reached, or answers something else", async () => {
  await expect(createHubSearch(undefined).search(ada, query)).rejects.toThrow(/HF_HUB_OFFLINE/);
  await expect(createHubSearch("http://127.0.0.1:1").search(ada, query)).rejects.toMatchObject({
    code: "hub_unavailable",
  });
  expect(() => readModels({ models: [] })).toThrow(/no list/);
});
