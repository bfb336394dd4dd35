import { pino } from "pino";
import { Registry } from "prom-client";
import { beforeEach, describe, expect, it } from "vitest";
import { TargetHealth } from "../../../../control-plane/inference/target-health.ts";
import type { AccountId, DeploymentId } from "../../../../proto/ids.ts";

const model = { deployId: "d-1" as DeploymentId, name: "provider/model" };
const [ada, bob] = ["u:1" as AccountId, "u:2" as AccountId];
const broken = { kind: "broken" } as const;
const answered = { kind: "answered" } as const;
const status = (code: number, retryAfterSeconds?: number) =>
  ({ kind: "status", status: code, retryAfterSeconds }) as const;
let nowMs: number;
let registry: Registry;
let health: TargetHealth;

beforeEach(() => {
  nowMs = 1_000_000;
  registry = new Registry();
  health = new TargetHealth({ log: pino({ level: "silent" }), registry, clock: () => nowMs });
});

const fail = (count: number) => {
  for (let n = 0; n < count; n++) health.note(model, n % 2 === 0 ? ada : bob, broken);
};

describe("the circuit breaker of an external server", () => {
  it("opens after five failures in a row, and closes once a request is answered", () => {
    fail(4);
    expect(health.refusal(model, ada)).toBeUndefined();
    fail(1);
    expect(health.refusal(model, ada)).toMatchObject({ code: "model_unavailable", retryAfterSeconds: 10 });
    expect(health.stateOf(model.deployId)).toEqual({ state: "open", reason: "failing", secondsLeft: 10, failures: 5 });
    nowMs += 10_000;
    expect(health.stateOf(model.deployId).state).toBe("half_open");
    expect(health.refusal(model, ada)).toBeUndefined();
    health.note(model, ada, answered);
    expect(health.stateOf(model.deployId)).toMatchObject({ state: "closed", failures: 0 });
  });

  it("sends one request at a time while half open, and waits twice as long when that fails", () => {
    fail(5);
    nowMs += 10_000;
    expect(health.refusal(model, ada)).toBeUndefined();
    expect(health.refusal(model, bob)).toBeDefined();
    health.note(model, ada, broken);
    expect(health.stateOf(model.deployId)).toMatchObject({ state: "open", secondsLeft: 20 });
  });

  it("sends another request when nothing is known of the one that was sent", () => {
    fail(5);
    nowMs += 10_000;
    expect(health.refusal(model, ada)).toBeUndefined();
    health.note(model, ada, { kind: "unknown" });
    expect(health.refusal(model, bob)).toBeUndefined();
  });

  it("does not open while answers come in between", () => {
    for (let n = 0; n < 10; n++) {
      fail(2);
      for (let m = 0; m < 3; m++) health.note(model, ada, status(400));
    }
    expect(health.refusal(model, ada)).toBeUndefined();
  });

  it("opens when half of many requests fail", () => {
    for (let n = 0; n < 12; n++) {
      fail(1);
      health.note(model, bob, answered);
    }
    fail(1);
    expect(health.refusal(model, ada)).toBeDefined();
  });

  it("turns other accounts away only when their requests fail as well", () => {
    for (let n = 0; n < 5; n++) health.note(model, ada, broken);
    expect(health.refusal(model, ada)).toBeDefined();
    expect(health.refusal(model, bob)).toBeUndefined();
    health.note(model, bob, broken);
    expect(health.refusal(model, bob)).toBeDefined();
  });

  it.each([
    ["fail", broken, 5],
    ["are refused with 403", status(403), 1],
  ])("does not turn away accounts that it answers when requests of two others %s", (_, outcome, count) => {
    const eve = "u:3" as AccountId;
    for (let n = 0; n < count; n++) health.note(model, ada, outcome);
    health.note(model, bob, answered);
    for (let n = 0; n < 4; n++) health.note(model, eve, outcome);
    expect(health.refusal(model, ada)).toBeDefined();
    expect(health.refusal(model, bob)).toBeUndefined();
    health.note(model, bob, answered);
    for (let n = 0; n < 5; n++) health.note(model, eve, outcome);
    expect(health.refusal(model, bob)).toBeDefined();
  });

  it("waits as long as the provider says after 429, and not at all without a time", () => {
    health.note(model, ada, status(429));
    expect(health.refusal(model, ada)).toBeUndefined();
    health.note(model, ada, status(429, 33));
    expect(health.refusal(model, bob)).toMatchObject({ code: "engine_overloaded", retryAfterSeconds: 33 });
    nowMs += 33_000;
    expect(health.refusal(model, bob)).toBeUndefined();
  });

  it("opens at once when the key is refused, and says so in the metrics", async () => {
    health.note(model, ada, status(401));
    expect(health.refusal(model, bob)).toMatchObject({ code: "model_unavailable", retryAfterSeconds: 60 });
    expect(health.stateOf(model.deployId).reason).toBe("key_refused");
    expect(await registry.metrics()).toContain('stoker_target_open{model="provider/model",reason="key_refused"} 1');
  });

  it("remembers the 200 servers that failed last", () => {
    const refuse = (n: number) => health.note({ ...model, deployId: `d-${n}` as DeploymentId }, ada, status(401));
    for (let n = 0; n < 200; n++) refuse(n);
    refuse(0);
    refuse(200);
    expect(health.stateOf("d-0" as DeploymentId).state).toBe("open");
    expect(health.stateOf("d-1" as DeploymentId).state).toBe("closed");
    expect(health.stateOf("d-200" as DeploymentId).state).toBe("open");
  });
});
