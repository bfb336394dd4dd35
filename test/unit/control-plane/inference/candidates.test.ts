import { describe, expect, it } from "vitest";
import type { ModelAlias } from "../../../../control-plane/catalog/model-alias.ts";
import { candidatesOf } from "../../../../control-plane/inference/candidates.ts";
import type { Completion } from "../../../../control-plane/inference/completion.ts";
import type { AccountId } from "../../../../proto/ids.ts";
import { servedModel } from "../../../fakes/ports.ts";

const alias: ModelAlias = {
  name: "prod",
  account: null,
  targets: [
    { model: "org/stable", weight: 95 },
    { model: "org/canary", weight: 5 },
  ],
  fallbacks: ["org/small"],
  isSticky: false,
  updatedAtMs: 0,
};
const models = {
  aliasOf: (name: string) => (name === alias.name ? alias : undefined),
  resolveModel: (name: string) => servedModel({ name }),
};
const completion = { kind: "chat", model: "prod", fields: { messages: [] } } as unknown as Completion;
const namesFor = (allowed: readonly string[] | null) =>
  candidatesOf(models, { account: "u:1" as AccountId, models: allowed && new Set(allowed) }, completion).map(
    ({ model }) => model,
  );

describe("the candidates of an alias", () => {
  it("are the canary first for its share of 10,000 requests, within 2 %", () => {
    const canaries = Array.from({ length: 10_000 }, () => namesFor(null)[0]).filter((name) => name === "org/canary");
    expect(Math.abs(canaries.length / 10_000 - 0.05)).toBeLessThan(0.02);
  });

  it("are all of its models for a key that lists the alias", () => {
    expect(namesFor(["prod"]).toSorted()).toEqual(["org/canary", "org/small", "org/stable"]);
  });

  it("are the models that a key lists, in their order", () => {
    for (let n = 0; n < 50; n++) expect(namesFor(["org/small", "org/canary"])).toEqual(["org/canary", "org/small"]);
    expect(namesFor(["org/small"])).toEqual(["org/small"]);
  });

  it("are all of its models for a key that may use none, which admission refuses", () => {
    expect(namesFor(["org/other"])).toHaveLength(3);
  });
});
