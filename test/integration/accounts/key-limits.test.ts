// Rules of API keys and end users in headers, over HTTP: two control planes on one database and one Redis.
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { type ExternalStack, startExternalStack } from "../../fakes/external-stack.ts";
import { hasRedis, startRedis, type TestRedis, withoutRedis } from "../../fakes/redis.ts";

withoutRedis("limits per minute of a key that control planes share");

let redis: TestRedis | undefined;
let world: ExternalStack;
let ada: string;
beforeAll(async () => {
  redis = hasRedis ? await startRedis() : undefined;
  world = await startExternalStack({
    replicas: 2,
    engine: { tokens: 4 },
    controlPlaneEnv: redis ? { REDIS_URL: redis.url } : {},
  });
  const person = { email: "ada@example.com", display_name: "ada", credit_usd: 5 };
  ada = (await world.stack.call("POST", "/v1/admin/accounts", person)).body.api_key;
});
afterAll(async () => {
  await world?.stop();
  await redis?.stop();
});

const patience = { timeout: 30_000, interval: 100 };
const replicas = () => world.stack.controlPlanes;

/** Asks the control plane of this number with a key of Ada's account. */
function ask(n: number, key: string, method: string, path: string, body?: unknown, headers: object = {}) {
  const at = replicas()[n % replicas().length];
  return world.stack.call(method, path, body, { authorization: `Bearer ${key}`, ...headers }, at);
}
const chat = (n: number, key: string, more: object = {}, headers: object = {}) =>
  ask(
    n,
    key,
    "POST",
    "/v1/chat/completions",
    { model: world.model, messages: [{ role: "user", content: "hi" }], ...more },
    headers,
  );

let serial = 0;
async function keyWith(rules: object): Promise<{ readonly key: string; readonly id: string }> {
  serial += 1;
  const { status, body } = await ask(0, ada, "POST", "/v1/api-tokens", { name: `key-${serial}`, ...rules });
  expect(status, JSON.stringify(body)).toBe(200);
  return { key: body.token, id: body.token_id };
}
const statuses = async (asked: readonly Promise<{ readonly status: number }>[]) =>
  (await Promise.all(asked)).map(({ status }) => status);

describe("a key", () => {
  it("runs and lists its models only, on both control planes", async () => {
    const { key } = await keyWith({ allowed_models: ["acme/other"] });
    const { key: open } = await keyWith({ allowed_models: [world.model] });
    expect(await statuses([0, 1].map((n) => chat(n, key)))).toEqual([403, 403]);
    expect(await statuses([0, 1].map((n) => chat(n, open)))).toEqual([200, 200]);
    const listed = await Promise.all([key, open].map((one) => ask(1, one, "GET", "/v1/models")));
    expect(listed.map(({ body }) => body.data.map(({ id }: { id: string }) => id))).toEqual([[], [world.model]]);
  });

  it("may do what its role permits, on both control planes within seconds of a change", async () => {
    const { key, id } = await keyWith({ role: "inference" });
    const change = (n: number) => ask(n, key, "POST", "/v1/ssh_keys", {});
    expect(await statuses([chat(0, key), chat(1, key), change(0), change(1)])).toEqual([200, 200, 403, 403]);
    expect((await ask(0, ada, "PATCH", `/v1/api-tokens/id/${id}`, { role: "read" })).status).toBe(200);
    await vi.waitFor(async () => {
      const reads = [0, 1].map((n) => ask(n, key, "GET", "/v1/requests"));
      expect(await statuses([chat(0, key), chat(1, key), ...reads])).toEqual([403, 403, 200, 200]);
    }, patience);
  });

  it("is refused on both control planes when it has expired", async () => {
    const { key } = await keyWith({ expires_at: Math.floor(Date.now() / 1000) + 8 });
    expect(await statuses([chat(0, key), chat(1, key)])).toEqual([200, 200]);
    await vi.waitFor(async () => expect(await statuses([chat(0, key), chat(1, key)])).toEqual([401, 401]), patience);
  });

  it.runIf(hasRedis)("has one limit of requests per minute at both control planes together", async () => {
    const { key } = await keyWith({ requests_per_minute: 4 });
    expect(await statuses([0, 0, 0].map((n) => chat(n, key)))).toEqual([200, 200, 200]);
    const outcomes: number[] = [];
    await vi.waitFor(
      async () => {
        const { status, body } = await chat(1, key);
        outcomes.push(status);
        expect([status, body.error?.message]).toEqual([429, expect.stringContaining("4 requests per minute")]);
      },
      // Control planes report their counts more often than this.
      { timeout: 30_000, interval: 600 },
    );
    // Alone it would admit 4.
    expect(outcomes.filter((status) => status === 200).length).toBeLessThan(4);
    expect((await chat(0, key)).status).toBe(429);
  });

  it.runIf(hasRedis)("has one limit of tokens per minute at both control planes together", async () => {
    const { key } = await keyWith({ tokens_per_minute: 5 });
    expect((await chat(0, key)).status).toBe(200);
    await vi.waitFor(async () => expect((await chat(1, key)).status).toBe(429), patience);
    expect((await chat(0, key)).status).toBe(429);
  });
});

describe("the end user of a request", () => {
  it("is that of Open WebUI's headers for a key that trusts them, otherwise that of the body", async () => {
    const { key: trusting } = await keyWith({ trusts_user_headers: true });
    const { key: other } = await keyWith({});
    const headers = { "x-openwebui-user-id": "id-of-ann", "x-openwebui-user-email": "ann@example.com" };
    const onlyEmail = { "x-openwebui-user-email": "bob@example.com" };
    expect(
      await statuses([
        chat(0, trusting, { user: "body" }, headers),
        chat(1, trusting, {}, headers),
        chat(1, trusting, {}, onlyEmail),
        chat(0, other, { user: "body" }, headers),
        chat(1, other, {}, headers),
        ask(0, trusting, "POST", "/v1/responses", { model: world.model, input: "hi" }, headers),
        ask(
          1,
          trusting,
          "POST",
          "/v1/messages",
          { model: world.model, max_tokens: 2, messages: [{ role: "user", content: "hi" }] },
          headers,
        ),
      ]),
    ).toEqual([200, 200, 200, 200, 200, 200, 200]);
    await vi.waitFor(async () => {
      const { body } = await ask(1, ada, "GET", "/v1/usage/users");
      const requests = body.users.map(({ user, requests }: { user: string; requests: number }) => [user, requests]);
      expect(requests).toEqual([
        ["bob@example.com", 1],
        ["body", 1],
        ["id-of-ann", 4],
      ]);
    }, patience);
  });
});
