// Projects over HTTP: keys that share a budget, on two control planes, with the engine fake.
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { checkBooks } from "../../../control-plane/store/core/check-books.ts";
import { openDatabase } from "../../../control-plane/store/core/database.ts";
import { type ExternalStack, startExternalStack } from "../../fakes/external-stack.ts";
import { wholeBooks } from "./world.ts";

const patience = { timeout: 30_000, interval: 100 };
/** USD of a token. */
const tokenUsd = 0.00002;
let world: ExternalStack;
let ada: string;
let eve: string;

beforeAll(async () => {
  world = await startExternalStack({ replicas: 2, engine: { tokens: 1 } });
  const account = async (name: string) => {
    const person = { email: `${name}@example.com`, display_name: name, credit_usd: 5 };
    return (await world.stack.call("POST", "/v1/admin/accounts", person)).body.api_key as string;
  };
  [ada, eve] = [await account("ada"), await account("eve")];
});
afterAll(() => world?.stop());

/** Asks the control plane of this number. */
function ask(n: number, key: string, method: string, path: string, body?: unknown) {
  const at = world.stack.controlPlanes[n % 2];
  return world.stack.call(method, path, body, { authorization: `Bearer ${key}` }, at);
}
const complete = (n: number, key: string) =>
  ask(n, key, "POST", "/v1/completions", { model: world.model, prompt: "hello", max_tokens: 1 });

async function made(key: string, path: string, body: object) {
  const answer = await ask(0, key, "POST", path, body);
  expect(answer.status, JSON.stringify(answer.body)).toBe(200);
  return answer.body;
}
const projectNamed = async (name: string) => {
  const { body } = await ask(1, ada, "GET", "/v1/projects");
  return body.projects.find((one: { name: string }) => one.name === name);
};

describe("a project", () => {
  it("spends at most its monthly limit with all its keys together, and says so", async () => {
    const { id } = await made(ada, "/v1/projects", { name: "search", monthly_limit: 50 * tokenUsd });
    const keys = [
      (await made(ada, "/v1/api-tokens", { name: "search-1", project_id: id })).token,
      (await made(ada, "/v1/api-tokens", { name: "search-2", project_id: id, role: "inference" })).token,
    ];
    const { token: outside } = await made(ada, "/v1/api-tokens", { name: "outside" });
    const answers = await Promise.all(
      Array.from({ length: 120 }, (_, i) => complete(i, keys[Math.floor(i / 2) % 2] as string)),
    );
    const answered = answers.filter(({ status }) => status === 200).length;
    expect(answered).toBeGreaterThan(0);
    expect(answered).toBeLessThanOrEqual(50);
    const refused = answers.filter(({ status }) => status !== 200);
    expect(refused.map(({ status }) => status)).toEqual(Array(120 - answered).fill(402));
    expect(refused[0]?.body.error.message ?? refused[0]?.body.error).toMatch(
      /^The project's monthly limit is used up: .*PATCH \/v1\/projects/,
    );
    expect((await complete(0, outside)).status).toBe(200);

    await vi.waitFor(
      async () =>
        expect(await projectNamed("search")).toMatchObject({
          id,
          key_count: 2,
          monthly_limit: 50 * tokenUsd,
          spent: expect.closeTo(answered * tokenUsd, 9),
        }),
      patience,
    );
    const raised = await ask(0, ada, "PATCH", `/v1/projects/${id}`, { monthly_limit: null });
    expect([raised.status, raised.body.monthly_limit]).toEqual([200, null]);
    for (const n of [0, 1])
      await vi.waitFor(async () => expect((await complete(n, keys[0] as string)).status).toBe(200), patience);
  });

  it("counts what was spent before it had a limit", async () => {
    const { id } = await made(ada, "/v1/projects", { name: "later" });
    const { token } = await made(ada, "/v1/api-tokens", { name: "later", project_id: id });
    for (let n = 0; n < 6; n++) {
      const { status, body } = await complete(n, token);
      expect(status, JSON.stringify(body)).toBe(200);
    }
    await vi.waitFor(async () => expect((await projectNamed("later")).spent).toBeCloseTo(6 * tokenUsd, 9), patience);
    await ask(0, ada, "PATCH", `/v1/projects/${id}`, { monthly_limit: 6 * tokenUsd });
    for (const n of [0, 1]) await vi.waitFor(async () => expect((await complete(n, token)).status).toBe(402), patience);
  });

  it("has its usage by day, also after it was deleted", async () => {
    const project = await projectNamed("later");
    const refused = await ask(0, ada, "DELETE", `/v1/projects/${project.id}`);
    expect([refused.status, refused.body.code]).toEqual([409, "project_has_keys"]);
    const { body: keys } = await ask(0, ada, "GET", "/v1/api-tokens");
    const own = keys.filter((one: { project_id: string | null }) => one.project_id === project.id);
    expect(own).toHaveLength(1);
    await ask(0, ada, "DELETE", `/v1/api-tokens/id/${own[0].token_id}`);
    expect((await ask(1, ada, "DELETE", `/v1/projects/${project.id}`)).status).toBe(200);
    expect(await projectNamed("later")).toBeUndefined();
    const { body } = await ask(0, ada, "GET", "/v1/usage/days?by=project");
    const items: { id: string; name: string; requests: number }[] = body.days.flatMap(
      (day: { items: unknown[] }) => day.items,
    );
    expect(items.filter(({ id }) => id === project.id)).toMatchObject([{ name: "later", requests: 6 }]);
    expect(items.map(({ name }) => name)).toEqual(expect.arrayContaining(["search", ""]));
    // The name is free again.
    await made(ada, "/v1/projects", { name: "later" });
  });

  it("belongs to one account", async () => {
    const { id } = await projectNamed("search");
    const tried = [
      await ask(0, eve, "GET", `/v1/projects/${id}`),
      await ask(0, eve, "PATCH", `/v1/projects/${id}`, { monthly_limit: 1 }),
      await ask(0, eve, "DELETE", `/v1/projects/${id}`),
      await ask(0, eve, "POST", "/v1/api-tokens", { name: "theft", project_id: id }),
    ];
    expect(tried.map(({ status, body }) => [status, body.code])).toEqual(tried.map(() => [404, "project_not_found"]));
    expect((await ask(0, eve, "GET", "/v1/projects")).body).toEqual({ projects: [] });
    const again = await ask(0, ada, "POST", "/v1/projects", { name: "SEARCH" });
    expect([again.status, again.body.code]).toEqual([409, "name_taken"]);
  });

  it("leaves the books whole", async () => {
    const { db, close } = openDatabase(world.stack.databaseUrl, { maxConnections: 1, log: pino({ level: "silent" }) });
    await vi.waitFor(async () => expect(await checkBooks(db)).toEqual(wholeBooks), patience);
    await close();
  });
});
