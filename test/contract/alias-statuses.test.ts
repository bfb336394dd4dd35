// Aliases of an account and of an operator, and requests that name them.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { ModelAlias } from "../../control-plane/catalog/model-alias.ts";
import type { DeploymentId } from "../../proto/ids.ts";
import { chat, type Edge, startEdge } from "../fakes/edge.ts";
import { ada, adminKey, apiKey, jwtOfAda, servedModel } from "../fakes/ports.ts";
import { check, type Row } from "./status-row.ts";

const body = { targets: [{ model: "org/model", weight: 3 }], fallbacks: [], sticky: true };
const alias = (change: Partial<ModelAlias> = {}): ModelAlias => ({
  name: "prod",
  account: ada.account,
  targets: [{ model: "org/model", weight: 1 }],
  fallbacks: [],
  isSticky: false,
  updatedAtMs: 1_786_000_000_000,
  ...change,
});
const given: Row["given"] = ({ models }) => {
  models.named = [alias(), alias({ name: "team/fast", account: null })];
};
const answer = { name: "team/prod", scope: "account", targets: body.targets, fallbacks: [], sticky: true };

describe("an alias", () => {
  it.each<Row>([
    {
      call: "GET /v1/model-aliases",
      status: 200,
      given,
      holds: { aliases: [{ name: "prod" }, { scope: "installation" }] },
    },
    { call: "PUT /v1/model-aliases/team/prod", status: 200, body, holds: answer },
    { call: "GET /v1/model-aliases/prod", status: 200, given, holds: { name: "prod", scope: "account" } },
    { call: "GET /v1/model-aliases/team/fast", status: 404, given, holds: { code: "alias_not_found" } },
    { call: "DELETE /v1/model-aliases/prod", status: 200, given, holds: { name: "prod", deleted: true } },
    { call: "DELETE /v1/model-aliases/none", status: 404, given, holds: { code: "alias_not_found" } },
    { call: "PUT /v1/admin/model-aliases/fast", status: 200, body, key: adminKey, holds: { scope: "installation" } },
    { call: "GET /v1/admin/model-aliases/team/fast", status: 200, key: adminKey, given, holds: { name: "team/fast" } },
    { call: "DELETE /v1/admin/model-aliases/team/fast", status: 200, key: adminKey, given },
    { call: "DELETE /v1/admin/model-aliases/none", status: 404, key: adminKey },
    { call: "GET /v1/admin/model-aliases/none", status: 404, key: adminKey },
    { call: "PUT /v1/admin/model-aliases/fast", status: 403, body },
    { call: "PUT /v1/model-aliases/prod", status: 401, body, key: "wrong" },
    { call: "PUT /v1/model-aliases/prod", status: 403, body, key: jwtOfAda },
    { call: "PUT /v1/model-aliases/prod", status: 400, body: "{" },
    {
      call: "PUT /v1/model-aliases/prod",
      status: 422,
      body: { targets: [{ model: "org/none" }] },
      holds: { code: "alias_target_unknown" },
    },
    {
      call: "PUT /v1/model-aliases/prod",
      status: 422,
      body: { targets: [{ model: "org/model", weight: 0 }] },
      holds: { code: "weights_all_zero" },
    },
    { call: "PUT /v1/model-aliases/prod", status: 422, body: { targets: [] } },
    { call: "PUT /v1/model-aliases/%00", status: 422, body },
    {
      call: "PUT /v1/model-aliases/prod",
      status: 409,
      body,
      given: ({ models }) => {
        models.named = Array.from({ length: 200 }, (_, n) => alias({ name: `alias-${n}` }));
      },
      holds: { code: "too_many_aliases" },
    },
  ])("$call is $status", check);
});

describe("a request that names an alias", () => {
  let edge: Edge;
  const other = servedModel({ name: "org/other", deployId: "deployment-2" as DeploymentId });
  beforeAll(async () => {
    edge = await startEdge({ agents: 2 });
    edge.models.models.push(other, servedModel({ name: "org/away", deployId: "deployment-3" as DeploymentId }));
    (edge.routes.routes[1] as { deployId: DeploymentId }).deployId = other.deployId;
  });
  afterAll(() => edge?.close());
  beforeEach(() => {
    edge.models.named = [];
  });
  const ask = async (change: Record<string, unknown> = {}, key = apiKey) => {
    const response = await edge.post("/v1/chat/completions", chat(change), {
      headers: { authorization: `Bearer ${key}` },
    });
    await response.text();
    return response.status;
  };
  /** Models of the requests so far, in order. */
  const servedBy = () => edge.logLines.flatMap(({ msg, model }) => (msg === "request" && model ? [model] : []));
  const share = async (count: number, change: (n: number) => Record<string, unknown>) => {
    const before = servedBy().length;
    for (let done = 0; done < count; done += 50)
      await Promise.all(Array.from({ length: 50 }, (_, n) => ask({ model: "prod", ...change(done + n) })));
    await expect.poll(() => servedBy().length).toBe(before + count);
    return (
      servedBy()
        .slice(before)
        .filter((name) => name === "org/other").length / count
    );
  };

  it("is divided by the weights of the targets", async () => {
    edge.models.named = [
      alias({
        targets: [
          { model: "org/model", weight: 80 },
          { model: "org/other", weight: 20 },
        ],
      }),
    ];
    // Six standard deviations of 1,000 requests.
    expect(Math.abs((await share(1_000, () => ({}))) - 0.2)).toBeLessThan(0.076);
  });

  it("stays at one target for a conversation, and conversations are divided by the weights", async () => {
    edge.models.named = [
      alias({
        isSticky: true,
        targets: [
          { model: "org/model", weight: 1 },
          { model: "org/other", weight: 1 },
        ],
      }),
    ];
    const turn = (conversation: number, later: number) => ({
      messages: [
        { role: "system", content: "Be brief." },
        { role: "user", content: `Question ${conversation}` },
        ...Array.from({ length: later }, (_, n) => ({ role: n % 2 ? "user" : "assistant", content: `${n}` })),
      ],
    });
    for (const conversation of [1, 2, 3, 4, 5])
      expect([0, 1]).toContain(await share(50, (n) => turn(conversation, n % 5)));
    expect(Math.abs((await share(1_000, (n) => turn(n, 0))) - 0.5)).toBeLessThan(0.095);
  });

  it("is served by the next target, then by a fallback, when a model has no instance", async () => {
    edge.models.named = [alias({ targets: [{ model: "org/away", weight: 1 }], fallbacks: ["org/none", "org/other"] })];
    expect(await ask({ model: "prod" })).toBe(200);
    await expect.poll(() => servedBy().at(-1)).toBe("org/other");
    edge.models.named = [alias({ targets: [{ model: "org/away", weight: 1 }] })];
    expect(await ask({ model: "prod" })).toBe(503);
  });

  it("takes the name of a model that it divides", async () => {
    edge.models.named = [
      alias({
        name: "org/model",
        targets: [
          { model: "org/other", weight: 1 },
          { model: "org/model", weight: 0 },
        ],
      }),
    ];
    expect(await ask({ model: "org/model" })).toBe(200);
    await expect.poll(() => servedBy().at(-1)).toBe("org/other");
  });

  it("is allowed to a token that lists the alias, and to one that lists the target", async () => {
    // Ada's token lists org/other only.
    edge.models.named = [alias({ targets: [{ model: "org/model", weight: 1 }] })];
    expect(await ask({ model: "prod" }, jwtOfAda)).toBe(403);
    edge.models.named = [alias({ targets: [{ model: "org/other", weight: 1 }] })];
    expect(await ask({ model: "prod" }, jwtOfAda)).toBe(200);
    edge.models.named = [alias({ name: "org/other", targets: [{ model: "org/model", weight: 1 }] })];
    expect(await ask({ model: "org/other" }, jwtOfAda)).toBe(200);
  });

  it("is served by the models that a token may use, whatever their weights", async () => {
    // Ada's token lists org/other only.
    edge.models.named = [
      alias({
        targets: [
          { model: "org/model", weight: 99 },
          { model: "org/other", weight: 1 },
        ],
      }),
    ];
    const statuses = await Promise.all(Array.from({ length: 50 }, () => ask({ model: "prod" }, jwtOfAda)));
    expect(statuses.filter((status) => status !== 200)).toEqual([]);
    edge.models.named = [alias({ targets: [{ model: "org/model", weight: 1 }], fallbacks: ["org/other"] })];
    expect(await ask({ model: "prod" }, jwtOfAda)).toBe(200);
    await expect.poll(() => servedBy().slice(-51)).toEqual(Array(51).fill("org/other"));
  });

  it("is listed among the models", async () => {
    edge.models.named = [alias({ targets: [{ model: "org/other", weight: 1 }] })];
    const list = (await (
      await fetch(`${edge.url}/v1/models`, { headers: { authorization: `Bearer ${apiKey}` } })
    ).json()) as {
      data: { id: string }[];
    };
    expect(list.data.map(({ id }) => id)).toContain("prod");
    const one = await fetch(`${edge.url}/v1/models/prod`, { headers: { authorization: `Bearer ${apiKey}` } });
    expect(await one.json()).toMatchObject({ id: "prod", object: "model" });
  });
});
