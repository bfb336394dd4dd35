import { describe, expect, it, vi } from "vitest";
import type { ServedModel } from "../../../../control-plane/catalog/served-model.ts";
import type { Route } from "../../../../control-plane/fleet/routes.ts";
import type { AnswerSink } from "../../../../control-plane/inference/answer-sink.ts";
import {
  type ColdStartLimits,
  createColdStarts,
  type StartState,
} from "../../../../control-plane/inference/cold-start.ts";
import { ModelNotReady } from "../../../../control-plane/inference/errors.ts";
import type { ServiceError } from "../../../../control-plane/service-error.ts";
import type { DeploymentId } from "../../../../proto/ids.ts";

class Sink implements AnswerSink {
  hasStarted = false;
  isGone = false;
  listener: AnswerSink["listener"];
  written = "";
  whole(): void {}
  begin(): void {}
  write(chunk: Buffer): void {
    this.hasStarted = true;
    this.written += chunk.toString();
  }
  end(): void {}
  abandon(): void {}
}

const model = (over: Partial<ServedModel> = {}) =>
  ({ name: "ada/m", deployId: "d1", owner: "u:ada", maxBatchSize: 2, isPublic: false, ...over }) as ServedModel;
const coming: StartState = { kind: "coming", phase: "downloading", etaSeconds: 42 };
const route = (inFlight = 0) => ({ maxBatchSize: 2, inFlight }) as Route;

function world(limits: Partial<ColdStartLimits> = {}) {
  let nowMs = 0;
  let asked = 0;
  const at = { state: coming as StartState | Error, routes: [] as Route[] };
  let changed: (id: DeploymentId | undefined) => void = () => {};
  const starts = createColdStarts({
    routes: { ready: () => at.routes },
    onChange: (listener) => {
      changed = listener;
    },
    ask: async () => {
      asked += 1;
      if (at.state instanceof Error) throw at.state;
      return at.state;
    },
    clock: () => nowMs,
    limits: { pollEveryMs: 1, askEveryMs: 0, ...limits },
  });
  return Object.assign(at, {
    starts,
    changed: (id?: string) => changed(id as DeploymentId | undefined),
    pass: (ms: number) => {
      nowMs += ms;
    },
    asked: () => asked,
    wait: (isStream = true, sink = new Sink(), of = model(), bytes = 1) =>
      starts.wait(of, isStream, sink, { startedMs: nowMs, bodyBytes: bytes }, of.owner),
  });
}
const caught = (wait: Promise<unknown>) =>
  wait.then(
    () => undefined,
    (error: unknown) => error,
  );

describe("a caller without an instance", () => {
  it("waits until one serves, and asks for it until then", async () => {
    const w = world();
    const wait = w.wait();
    await vi.waitFor(() => expect(w.asked()).toBeGreaterThan(2), { timeout: 20_000 });
    w.routes = [route()];
    expect(await wait).toBe("ready");
    const asked = w.asked();
    // The loop of a deployment ends with its last waiter.
    for (let n = 0; n < 20; n++) await new Promise(setImmediate);
    expect(w.asked()).toBeLessThanOrEqual(asked + 1);
  });

  it("continues when the routes change, without waiting for the next check", async () => {
    const w = world({ pollEveryMs: 600_000 });
    const wait = w.wait();
    await vi.waitFor(() => expect(w.asked()).toBe(1));
    w.routes = [route()];
    w.changed();
    expect(await wait).toBe("ready");
  });

  it("asks again when its deployment changes, four times a second at most, and not when another one does", async () => {
    const w = world({ pollEveryMs: 600_000, askEveryMs: 600_000 });
    const sink = new Sink();
    const wait = w.wait(true, sink);
    await vi.waitFor(() => expect(w.asked()).toBe(1));
    for (let n = 0; n < 20; n++) {
      w.changed("d1");
      await new Promise(setImmediate);
    }
    expect(w.asked()).toBe(1);
    w.pass(250);
    w.changed("d2");
    w.changed("d1");
    await vi.waitFor(() => expect(w.asked()).toBe(2));
    sink.listener?.clientGone();
    expect(await wait).toBe("gone");
    // Ends the loop.
    w.changed("d1");
  });

  it("is told the phase and the time left on a stream every 15 s, and before that keeps its status open", async () => {
    const w = world();
    const sink = new Sink();
    const wait = w.wait(true, sink);
    w.pass(14_999);
    await vi.waitFor(() => expect(w.asked()).toBeGreaterThan(2), { timeout: 20_000 });
    expect(sink.hasStarted).toBe(false);
    w.pass(1);
    await vi.waitFor(() => expect(sink.written).toBe(": keep-alive phase=downloading eta=42s\n\n"), {
      timeout: 20_000,
    });
    w.pass(15_000);
    await vi.waitFor(() => expect(sink.written.match(/keep-alive/g)).toHaveLength(2), { timeout: 20_000 });
    w.routes = [route()];
    await wait;
  });

  it.each([
    [true, 600_000],
    [false, 50_000],
  ])(
    "is refused with phase, time left and Retry-After when its time is over (stream: %s)",
    async (isStream, limitMs) => {
      const w = world();
      const wait = caught(w.wait(isStream));
      await vi.waitFor(() => expect(w.asked()).toBeGreaterThan(1), { timeout: 20_000 });
      w.pass(limitMs - 1);
      const asked = w.asked();
      await vi.waitFor(() => expect(w.asked()).toBeGreaterThan(asked + 2), { timeout: 20_000 });
      expect(await Promise.race([wait, "waits"])).toBe("waits");
      w.pass(1);
      const error = (await wait) as ModelNotReady;
      expect(error).toBeInstanceOf(ModelNotReady);
      expect(error).toMatchObject({ params: { phase: "downloading", etaSeconds: 42 }, retryAfterSeconds: 42 });
    },
  );

  it("leaves at once when its client goes, and nobody asks any more", async () => {
    const w = world();
    const sink = new Sink();
    const wait = w.wait(true, sink);
    sink.listener?.clientGone();
    expect(await wait).toBe("gone");
    expect(sink.listener).toBeUndefined();
  });

  it("is refused at once where no instance will come, and after a while where none is on its way", async () => {
    const ended = world();
    ended.state = { kind: "ended", phase: "failed" };
    expect(await caught(ended.wait())).toMatchObject({ params: { phase: "failed" } });

    const stuck = world();
    stuck.state = { kind: "stuck", phase: "no_capacity", etaSeconds: 60 };
    const wait = caught(stuck.wait());
    await vi.waitFor(() => expect(stuck.asked()).toBeGreaterThan(2), { timeout: 20_000 });
    expect(await Promise.race([wait, "waits"])).toBe("waits");
    stuck.pass(5_000);
    expect(await wait).toMatchObject({ params: { phase: "no_capacity" }, retryAfterSeconds: 60 });

    const away = world();
    away.state = new Error("the database is away");
    const waiting = caught(away.wait());
    await vi.waitFor(() => expect(away.asked()).toBeGreaterThan(2), { timeout: 20_000 });
    away.pass(5_000);
    expect(await waiting).toBeInstanceOf(ModelNotReady);
  });

  it("hears of missing money only where it is its own", async () => {
    const w = world();
    w.state = { kind: "unpaid" };
    expect(await caught(w.wait())).toMatchObject({ code: "insufficient_quota" });
    expect(await caught(w.wait(true, new Sink(), model({ isPublic: true })))).toBeInstanceOf(ModelNotReady);
  });

  it("is let through in the order it came, as many as the instances take", async () => {
    const w = world();
    const order: number[] = [];
    const only = route(2);
    const waits = Array.from({ length: 10 }, (_, n) =>
      w.wait().then(() => {
        only.inFlight += 1;
        order.push(n);
      }),
    );
    w.routes = [only];
    await vi.waitFor(() => expect(order).toHaveLength(6), { timeout: 20_000 });
    const asked = w.asked();
    await vi.waitFor(() => expect(w.asked()).toBeGreaterThan(asked + 2), { timeout: 20_000 });
    expect(order).toHaveLength(6);
    only.inFlight = 0;
    await Promise.all(waits);
    expect(order).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  });

  it("is turned away with Retry-After when the bodies of all that wait, for whatever deployment, would be too many bytes", async () => {
    const w = world({ maxBytes: 100 });
    const first = new Sink();
    // Larger than all together, and alone.
    const alone = w.wait(true, first, model(), 150);
    const other = model({ deployId: "d2" as ServedModel["deployId"] });
    const error = await caught(w.wait(true, new Sink(), other, 1));
    expect(error).toMatchObject({ code: "cold_start_full" });
    expect((error as ServiceError).retryAfterSeconds).toBeGreaterThan(0);
    first.listener?.clientGone();
    expect(await alone).toBe("gone");
    const waits = [w.wait(true, new Sink(), model(), 60), w.wait(true, new Sink(), other, 40)];
    expect(await caught(w.wait(true, new Sink(), other, 1))).toMatchObject({ code: "cold_start_full" });
    w.routes = [route()];
    expect(await Promise.all(waits)).toEqual(["ready", "ready"]);
    // What was let through counts no more.
    expect(await w.wait(true, new Sink(), model(), 100)).toBe("ready");
  });

  it("is turned away when too many wait, and when the control plane ends", async () => {
    const w = world({ minWaiterLimit: 3 });
    const many = Array.from({ length: 16 }, () => caught(w.wait()));
    expect(await caught(w.wait())).toBeInstanceOf(ModelNotReady);
    w.starts.close();
    for (const one of await Promise.all(many)) expect(one).toBeInstanceOf(ModelNotReady);
    expect(await caught(w.wait())).toBeInstanceOf(ModelNotReady);
  });
});
