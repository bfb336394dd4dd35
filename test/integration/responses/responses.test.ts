// Stored responses on a real database; how one is run is the test's to say.
import { Registry } from "prom-client";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { callerOf } from "../../../control-plane/accounts/authenticate.ts";
import { createDataKeys } from "../../../control-plane/accounts/data-keys.ts";
import { bodiesFull } from "../../../control-plane/http/errors/errors.ts";
import { EngineOverloaded, upstreamBroken } from "../../../control-plane/inference/errors.ts";
import type { StoredContent } from "../../../control-plane/responses/responses.ts";
import type { RunResponse } from "../../../control-plane/responses/run-responses.ts";
import type { ResponseLimits } from "../../../control-plane/responses/store.ts";
import { createResponseService } from "../../../control-plane/wiring/responses.ts";
import { randomId } from "../../../proto/ids.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { log, openWorld, patience } from "../billing/world.ts";

const mib = 1024 ** 2;
let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres.stop());

/** Answers with the text of the first item. */
const echo: RunResponse = async ({ content }) => ({
  status: "completed",
  response: { ...content.response, status: "completed", output: [{ id: "msg_1_0", text: content.items[0]?.["text"] }] },
  letGo: () => {},
});

/** Arrays in arrays, more than JSON.stringify goes down. */
function nested(depth: number): unknown {
  let value: unknown = [];
  for (let i = 0; i < depth; i++) value = [value];
  return value;
}

async function openResponses(options: { readonly run?: RunResponse; readonly limits?: ResponseLimits } = {}) {
  const world = await openWorld(postgres);
  const { db, accountStore, secrets } = world;
  function start(run: RunResponse = options.run ?? echo) {
    const service = createResponseService({
      db,
      accountStore,
      dataKeys: createDataKeys({ store: accountStore, secrets }),
      ...(options.limits ? { limits: options.limits } : {}),
      maxBodyBytes: 64 * mib,
      hasCapacity: () => true,
      clockScale: 0.01,
      claimScale: 1,
      registry: new Registry(),
      log,
    });
    service.verbs.runWith(run);
    service.start?.();
    onTestFinished(() => service.stop?.() as Promise<void>);
    return service.verbs;
  }
  const account = await world.account(0n);
  const row = await accountStore.findOwnKey(account, await world.keyOf(account));
  if (!row) throw new Error("the account has no key");
  const caller = callerOf(row);
  const verbs = start();
  const request = (text = "Hi", previous?: string) => {
    const id = `resp_${randomId(24)}`;
    const content: StoredContent = { items: [{ id: `msg_${id}_in0`, text }], response: { id, output: [] }, body: {} };
    return { id, previous, content };
  };
  return {
    ...world,
    account,
    stranger: () => world.account(0n),
    caller,
    verbs,
    start,
    request,
    async queued(text?: string) {
      const one = request(text);
      await verbs.queue(caller, one);
      return one.id;
    },
    async saved(text?: string, previous?: string) {
      const one = request(text, previous);
      await verbs.save(caller, { ...one, status: "completed" });
      return one.id;
    },
    ended: (id: string) =>
      vi.waitFor(async () => {
        const response = await verbs.get(account, id);
        expect(["queued", "in_progress"]).not.toContain(response["status"]);
        return response;
      }, patience),
  };
}

describe("a response in the background", () => {
  it("waits while its model is busy, and runs again after a break, with increasing attempt numbers", async () => {
    const began: number[] = [];
    const world = await openResponses({
      run: async (job, caller, firstAttempt, signal) => {
        began.push(firstAttempt);
        if (began.length === 1) throw new EngineOverloaded(1);
        if (began.length === 2) throw upstreamBroken();
        return echo(job, caller, firstAttempt, signal);
      },
    });
    expect(await world.ended(await world.queued("Grüße"))).toMatchObject({
      status: "completed",
      output: [{ text: "Grüße" }],
    });
    expect(began).toEqual([0, 100, 200]);
  });

  it("fails when it breaks every time, when its key is revoked, and when it waited for a day", async () => {
    let runs = 0;
    const world = await openResponses({
      run: async () => {
        runs += 1;
        throw upstreamBroken();
      },
    });
    const failed = { status: "failed", error: { code: "server_error" } };
    expect(await world.ended(await world.queued())).toMatchObject(failed);
    expect(runs).toBe(5);
    await world.pool.query("update api_key set revoked_at = now() where account_id = $1", [world.account]);
    expect(await world.ended(await world.queued())).toMatchObject({
      ...failed,
      error: { message: expect.stringMatching(/revoked/) },
    });
    await world.pool.query("update api_key set revoked_at = null where account_id = $1", [world.account]);
    const late = world.request();
    await world.pool.query(
      `alter table stored_response alter expires_at set default now(); create or replace function expire() returns trigger
       language plpgsql as 'begin new.expires_at := now(); return new; end';
       create trigger expire before insert on stored_response for each row execute function expire()`,
    );
    await world.verbs.queue(world.caller, late);
    expect(await world.ended(late.id)).toMatchObject({
      ...failed,
      error: { message: expect.stringMatching(/expired/) },
    });
    expect(runs).toBe(5);
  });

  it("runs once, however many control planes wait for work", async () => {
    const ran: string[] = [];
    const world = await openResponses({
      run: async (job, ...rest) => {
        ran.push(job.id);
        return echo(job, ...rest);
      },
    });
    world.start();
    world.start();
    const ids = await Promise.all(Array.from({ length: 40 }, () => world.queued()));
    for (const id of ids) await world.ended(id);
    expect(ran.toSorted()).toEqual(ids.toSorted());
  });

  it("stops when it is deleted, and nothing of it is stored", async () => {
    const began = Promise.withResolvers<void>();
    const aborted = Promise.withResolvers<void>();
    const world = await openResponses({
      run: (_job, _caller, _attempt, signal) => {
        began.resolve();
        return new Promise((done) => {
          signal.addEventListener("abort", () => {
            aborted.resolve();
            done(undefined);
          });
        });
      },
    });
    const id = await world.queued();
    await began.promise;
    await world.verbs.remove(world.account, id);
    await aborted.promise;
    await expect(world.verbs.get(world.account, id)).rejects.toMatchObject({ code: "response_not_found" });
  });

  it("is refused when too many wait", async () => {
    const gate = Promise.withResolvers<undefined>();
    const world = await openResponses({
      limits: { bytes: 1024 * mib, unfinished: 2 },
      run: () => gate.promise,
    });
    const outcomes = await Promise.allSettled(Array.from({ length: 5 }, () => world.queued()));
    expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(2);
    await expect(world.queued()).rejects.toMatchObject({ code: "response_queue_full", kind: "rate_limited" });
    gate.resolve(undefined);
  });
});

describe("stored responses", () => {
  it("are refused when they use all the space of the account, or are too large", async () => {
    const world = await openResponses({ limits: { bytes: 3_500, unfinished: 10 } });
    await world.verbs.checkSpace(world.account);
    const id = await world.saved("x".repeat(3_000));
    await expect(world.saved("x".repeat(500))).rejects.toMatchObject({ code: "stored_responses_full" });
    await world.verbs.checkSpace(world.account);
    await world.pool.query("update stored_response set sealed = sealed || decode(repeat('00', 500), 'hex')");
    for (const use of [() => world.verbs.checkSpace(world.account), () => world.queued()])
      await expect(use()).rejects.toMatchObject({ code: "stored_responses_full", kind: "conflict" });
    await world.verbs.remove(world.account, id);
    await world.verbs.checkSpace(world.account);
    await expect(world.saved("x".repeat(16 * mib))).rejects.toMatchObject({ code: "response_too_large" });
  });

  it("never pass the space of the account, also when they are stored at once or end in the background", async () => {
    const maxBytes = 10_000;
    const output = (text: string): RunResponse => {
      return async ({ content }) => ({
        status: "completed",
        response: {
          ...content.response,
          status: "completed",
          output: [{ id: "msg_1_0", text }],
          usage: { total_tokens: 7 },
        },
        letGo: () => {},
      });
    };
    const world = await openResponses({ limits: { bytes: maxBytes, unfinished: 10 }, run: output("x".repeat(9_000)) });
    const outcomes = await Promise.allSettled(Array.from({ length: 20 }, () => world.saved("x".repeat(1_000))));
    const stored = outcomes.filter(({ status }) => status === "fulfilled").length;
    const bytes = async () => Number((await world.pool.query("select sum(bytes) from stored_response")).rows[0].sum);
    expect(stored).toBeGreaterThan(4);
    expect(await bytes()).toBeLessThanOrEqual(maxBytes);
    expect(await bytes()).toBeGreaterThan(maxBytes - 2_000);
    await world.pool.query(
      "delete from stored_response where response_id in (select response_id from stored_response limit 2)",
    );
    const id = await world.queued();
    await world.ended(id);
    expect(await world.verbs.get(world.account, id)).toMatchObject({
      status: "failed",
      error: { code: "server_error", message: expect.stringContaining("use all of their") },
      output: [],
      usage: { total_tokens: 7 },
    });
    expect(await bytes()).toBeLessThanOrEqual(maxBytes);
  });

  it("fail without their output when they end in the background above the limit of one", async () => {
    const run: RunResponse = async ({ content }) => ({
      status: "completed",
      response: { ...content.response, output: [{ id: "msg_1_0", text: "x".repeat(16 * mib) }] },
      letGo: () => {},
    });
    const world = await openResponses({ run });
    const id = await world.queued();
    await world.ended(id);
    expect(await world.verbs.get(world.account, id)).toMatchObject({
      status: "failed",
      error: { message: expect.stringContaining("16 MiB") },
      output: [],
    });
  });

  it("fail without their output, after one run, when what the engine sent in the background cannot be serialised", async () => {
    let runs = 0;
    const world = await openResponses({
      run: async ({ content }) => {
        runs += 1;
        return {
          status: "completed",
          response: { ...content.response, output: [{ id: "msg_1_0", text: nested(100_000) }] },
          letGo: () => {},
        };
      },
    });
    const id = await world.queued();
    await world.ended(id);
    expect(await world.verbs.get(world.account, id)).toMatchObject({
      status: "failed",
      error: { code: "server_error", message: expect.stringContaining("expected form") },
      output: [],
    });
    expect(runs).toBe(1);
  });

  it("form a conversation, oldest first, until one of them is gone", async () => {
    const world = await openResponses();
    const first = await world.saved("one");
    const second = await world.saved("two", first);
    const third = await world.saved("three", second);
    const { items } = await world.verbs.conversation(world.account, third, () => {});
    expect(items.map((item) => item["text"])).toEqual(["one", "two", "three"]);
    const full = () => {
      throw bodiesFull();
    };
    await expect(world.verbs.conversation(world.account, third, full)).rejects.toMatchObject({ code: "bodies_full" });
    const stranger = await world.stranger();
    await world.verbs.remove(world.account, first);
    for (const [account, id] of [
      [world.account, third],
      [world.account, "resp_none"],
      [stranger, third],
    ] as const)
      await expect(world.verbs.conversation(account, id, () => {})).rejects.toMatchObject({
        code: "previous_response_not_found",
      });
  });

  it("do not open in the row of another response", async () => {
    const world = await openResponses();
    const [one, other] = [await world.saved("one"), await world.saved("other")];
    await world.pool.query(
      `update stored_response set sealed = (select sealed from stored_response where response_id = $1)
       where response_id = $2`,
      [one, other],
    );
    await expect(world.verbs.get(world.account, other)).rejects.toThrow();
    expect(await world.verbs.get(world.account, one)).toMatchObject({ id: one });
  });
});
