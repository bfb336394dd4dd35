import { beforeEach, describe, expect, it } from "vitest";
import { RateMeters } from "../../../../control-plane/quotas/rate-limiter.ts";
import { type RateLink, SharedRates } from "../../../../control-plane/quotas/shared-rates.ts";
import type { AccountId, DeploymentId } from "../../../../proto/ids.ts";

const ada = "u:1:2" as AccountId;
const model = "model" as DeploymentId;
let nowMs: number;
let isCut: boolean;
let ears: Map<string, (message: string, from: string) => void>;
beforeEach(() => {
  nowMs = 0;
  isCut = false;
  ears = new Map();
});

function replica(id: string) {
  const meters = new RateMeters({ defaults: { concurrent: 4, tokensPerMinute: 100, weight: 1 }, clock: () => nowMs });
  const link: RateLink = {
    publish(message) {
      if (!isCut) for (const [other, ear] of ears) if (other !== id) ear(message, id);
    },
    on: (ear) => void ears.set(id, ear),
  };
  const shared = new SharedRates({ meters, link, clock: () => nowMs });
  return { tick: () => shared.tick(), take: () => meters.meter(ada, model).take() };
}
type Replica = ReturnType<typeof replica>;
const exchange = (...all: Replica[]) => {
  for (const one of [...all, ...all]) one.tick();
};

describe("connected replicas", () => {
  it("share one limit, once each has sent its counts", () => {
    const [a, b, c] = [replica("a"), replica("b"), replica("c")];
    a.take();
    a.take();
    b.take();
    exchange(a, b, c);
    const last = c.take();
    exchange(a, b, c);
    for (const one of [a, b, c]) expect(() => one.take()).toThrow(/4 concurrent requests/);
    last.end(0);
    exchange(a, b, c);
    b.take();
  });

  it("count the tokens of the last minute together", () => {
    const [a, b] = [replica("a"), replica("b")];
    a.take().end(60);
    b.take().end(40);
    exchange(a, b);
    for (const one of [a, b]) expect(() => one.take()).toThrow(/100 tokens per minute/);
    nowMs += 61_000;
    exchange(a, b);
    a.take();
  });

  it("a model new to one of them starts with the counts of the others", () => {
    const [a, b] = [replica("a"), replica("b")];
    for (let i = 0; i < 4; i++) a.take();
    exchange(a, b);
    expect(() => b.take()).toThrow(/4 concurrent requests/);
  });
});

describe("disconnected replicas", () => {
  it("each grant the whole limit: received counts expire after two seconds, and return on reconnection", () => {
    const [a, b] = [replica("a"), replica("b")];
    for (let i = 0; i < 4; i++) a.take();
    exchange(a, b);
    isCut = true;
    nowMs += 2_000;
    exchange(a, b);
    expect(() => b.take()).toThrow(/4 concurrent requests/);
    nowMs += 1;
    exchange(a, b);
    for (let i = 0; i < 4; i++) b.take();
    expect(() => b.take()).toThrow(/4 concurrent requests/);
    isCut = false;
    exchange(a, b);
    for (const one of [a, b]) expect(() => one.take()).toThrow(/4 concurrent requests/);
  });

  it("ignore messages of other formats", () => {
    const a = replica("a");
    const ear = ears.get("a") as (message: string, from: string) => void;
    for (const junk of [
      "",
      "null",
      "{",
      "{}",
      "[1]",
      "[null]",
      '[["u:1:2 model"]]',
      '[["u:1:2 model",-5,0]]',
      '[["u:1:2 model",1e999,0]]',
    ])
      ear(junk, "b");
    a.tick();
    for (let i = 0; i < 4; i++) a.take();
  });
});

it("a replica without counts sends nothing, after a final zero", () => {
  const said: string[] = [];
  const a = replica("a");
  ears.set("listener", (message) => said.push(message));
  a.tick();
  const permit = a.take();
  a.tick();
  permit.end(0);
  a.tick();
  a.tick();
  expect(said).toEqual(['[["u:1:2 model",1,0]]', "[]"]);
});
