import { describe, expect, it } from "vitest";
import { createDirectory } from "../../../../control-plane/catalog/directory.ts";
import type { ModelAlias } from "../../../../control-plane/catalog/model-alias.ts";
import { noAbout } from "../../../../control-plane/catalog/model-meta.ts";
import type {
  DeployedAdapter,
  DeployedModel,
  NotedModel,
  OfferedModel,
} from "../../../../control-plane/catalog/store.ts";
import type { AccountId, AdapterId, DeploymentId } from "../../../../proto/ids.ts";
import { freeOfCharge } from "../../../../proto/money.ts";

const [operator, ada, bob] = ["u:op", "u:ada", "u:bob"] as unknown as [AccountId, AccountId, AccountId];
const deployed = (
  id: string,
  account: AccountId,
  modelName: string,
  over: Partial<DeployedModel> = {},
): DeployedModel => ({
  deployId: id as DeploymentId,
  account,
  modelName,
  servedName: modelName,
  version: `v-${id}`,
  task: "text-generation",
  engine: "stoker",
  takesAdapters: true,
  status: "deployed",
  maxBatchSize: 4,
  contextLength: 2048,
  createdAtMs: 0,
  ...over,
});
const offer = (name: string, id: string): OfferedModel => ({
  name,
  deployId: id as DeploymentId,
  description: "small",
  rates: { input: 20n, cachedInput: 10n, output: 40n },
  priceVersion: 7,
  createdAtMs: 1,
});

async function directory(
  models: DeployedModel[],
  offers: OfferedModel[] = [],
  notes: NotedModel[] = [],
  adapters: DeployedAdapter[] = [],
  aliases: ModelAlias[] = [],
) {
  const found = createDirectory({
    deployed: async () => models,
    noted: async () => notes,
    offered: async () => offers,
    adapters: async () => adapters,
    aliases: async () => aliases,
    untilNextPriceMs: async () => undefined,
    offer: async () => undefined,
  });
  await found.refresh();
  return found;
}

describe("the models in memory", () => {
  it("gives every account an offered model at its price, including the operator", async () => {
    const models = await directory([deployed("d1", operator, "org/small")], [offer("org/small", "d1")]);
    for (const caller of [operator, ada]) {
      expect(models.resolve("org/small", caller)).toMatchObject({
        isPublic: true,
        priceVersion: 7,
        rates: { output: 40n },
      });
    }
    expect(models.resolve("deploy_id:d1", operator)).toMatchObject({ isPublic: false, rates: freeOfCharge });
  });

  it("knows a model by name, by name and version, and by deployment", async () => {
    const models = await directory([deployed("d1", ada, "ada/llm")]);
    for (const name of ["ada/llm", "ada/llm:v-d1", "deploy_id:d1"])
      expect(models.resolve(name, ada)?.deployId).toBe("d1");
    for (const name of ["ada/llm:v-d2", "ada/other", "deploy_id:d2", "", ":", "deploy_id:"])
      expect(models.resolve(name, ada)).toBeUndefined();
  });

  it("never shows deployments of another account", async () => {
    const models = await directory([deployed("d1", ada, "ada/llm"), deployed("d2", bob, "bob/llm")]);
    expect(models.resolve("ada/llm", bob)).toBeUndefined();
    expect(models.resolve("deploy_id:d1", bob)).toBeUndefined();
    expect(models.list(bob).map((model) => model.name)).toEqual(["bob/llm"]);
  });

  it("prefers an account's own deployment of a name that is also offered", async () => {
    const models = await directory(
      [deployed("d1", operator, "org/small"), deployed("d2", ada, "org/small")],
      [offer("org/small", "d1")],
    );
    expect(models.resolve("org/small", ada)?.deployId).toBe("d2");
    expect(models.resolve("org/small", bob)?.deployId).toBe("d1");
  });

  it("gives the name of a failed deployment to a working one", async () => {
    const models = await directory([
      deployed("d1", ada, "ada/llm", { status: "failed" }),
      deployed("d2", ada, "ada/llm", { status: "deploying" }),
      deployed("d3", ada, "ada/llm", { status: "failed" }),
    ]);
    expect(models.resolve("ada/llm", ada)?.deployId).toBe("d2");
  });
});

describe("descriptions of models by their owners", () => {
  const note = (account: AccountId, name: string, over: Partial<NotedModel> = {}): NotedModel => ({
    ...noAbout,
    account,
    name,
    description: "said by its owner",
    ...over,
  });

  it("apply to own models; offered models have the description of the offer", async () => {
    const models = await directory(
      [deployed("d1", operator, "org/small"), deployed("d2", ada, "ada/own")],
      [offer("org/small", "d1")],
      [note(operator, "org/small", { isFeatured: true }), note(ada, "ada/own", { tags: ["fast"] })],
    );
    expect(models.resolve("org/small", bob)).toMatchObject({ description: "small", about: { isFeatured: true } });
    expect(models.resolve("ada/own", ada)).toMatchObject({
      description: "said by its owner",
      about: { tags: ["fast"] },
    });
  });

  it("let others read the record of a visible model, but never call it", async () => {
    const models = await directory([deployed("d2", ada, "ada/own")], [], [note(ada, "ada/own", { isShown: true })]);
    expect(models.find("ada/own", bob)).toMatchObject({ owner: ada });
    expect(models.resolve("ada/own", bob)).toBeUndefined();
    expect(models.list(bob)).toEqual([]);
  });

  it("do not apply to another account's model of the same name", async () => {
    const models = await directory([deployed("d2", bob, "org/same")], [], [note(ada, "org/same", { isShown: true })]);
    expect(models.find("org/same", ada)).toBeUndefined();
    expect(models.resolve("org/same", bob)?.about).toMatchObject({ isShown: false });
  });

  it("removes an adapter with its base model, and replaces only the base", async () => {
    const gone = { deprecatedAtMs: 1_000, sunsetAtMs: 2_000 };
    const adapter: DeployedAdapter = {
      id: "a1" as AdapterId,
      account: ada,
      name: "ada/tuned",
      revision: "main",
      description: "tuned",
      base: { kind: "offered", name: "org/small" },
      isFailed: false,
      isServed: true,
      createdAtMs: 0,
    };
    const models = await directory(
      [deployed("d1", operator, "org/small")],
      [offer("org/small", "d1")],
      [note(operator, "org/small", { ...gone, replacedBy: "org/next", isFeatured: true })],
      [adapter],
    );
    expect(models.resolve("ada/tuned", ada)?.about).toEqual({ ...noAbout, ...gone });
  });
});

describe("aliases", () => {
  const alias = (name: string, account: AccountId | null, ...models: string[]): ModelAlias => ({
    name,
    account,
    targets: models.map((model) => ({ model, weight: 1 })),
    fallbacks: [],
    isSticky: false,
    updatedAtMs: 1,
  });
  const models = [deployed("1", operator, "org/base"), deployed("2", ada, "ada/own")];
  const withAliases = (...aliases: ModelAlias[]) => directory(models, [offer("org/base", "1")], [], [], aliases);

  it("resolve to their first model that exists for the caller", async () => {
    const found = await withAliases(alias("prod", null, "ada/own", "org/base"));
    expect(found.resolve("prod", ada)?.name).toBe("ada/own");
    expect(found.resolve("prod", bob)?.name).toBe("org/base");
    expect(found.find("prod", ada)).toBeUndefined();
  });

  it("of an account hide those of an operator, and are unknown to others", async () => {
    const found = await withAliases(
      alias("prod", null, "org/base"),
      alias("prod", ada, "ada/own"),
      alias("x", ada, "ada/own"),
    );
    expect(found.resolve("prod", ada)?.name).toBe("ada/own");
    expect(found.resolve("prod", bob)?.name).toBe("org/base");
    expect(found.resolve("x", bob)).toBeUndefined();
    expect(found.aliases(ada).map(({ name, account }) => [name, account])).toEqual([
      ["prod", ada],
      ["x", ada],
    ]);
  });

  it("of an operator hide an offered model, but never an account's own model", async () => {
    const found = await withAliases(alias("ada/own", null, "org/base"), alias("org/base", null, "org/none"));
    expect(found.resolve("ada/own", ada)?.deployId).toBe("2");
    expect(found.resolve("ada/own", bob)?.name).toBe("org/base");
    expect(found.resolve("org/base", bob)).toBeUndefined();
    expect(found.resolveModel("org/base", bob)?.name).toBe("org/base");
  });

  it("of an operator are checked against offered models only", async () => {
    const found = await withAliases();
    expect(found.isCallable("org/base", null)).toBe(true);
    expect(found.isCallable("ada/own", null)).toBe(false);
    expect(found.isCallable("ada/own", ada)).toBe(true);
  });
});
