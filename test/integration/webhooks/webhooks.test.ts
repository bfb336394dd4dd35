// Webhooks of an account: its requests are run, delivered, signed, logged and replayed.
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { InsufficientFunds } from "../../../control-plane/billing/hold.ts";
import { EngineOverloaded, upstreamBroken } from "../../../control-plane/inference/errors.ts";
import { createProfileStore } from "../../../control-plane/store/accounts/profile-store.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { verified } from "../../fakes/webhook-receiver.ts";
import { patience } from "../billing/world.ts";
import { echo, openWebhooks } from "./world.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres.stop());

const ip = "192.0.2.1";

describe("a request with a webhook", () => {
  it("is delivered in the documented format, with a signature that the official library accepts", async () => {
    const world = await openWebhooks(postgres);
    const account = await world.account(0n);
    const requestId = await world.ask(await world.callerIn(account), "Grüße");
    const told = await world.ended(account, requestId);
    const [call] = world.receiver.calls;
    expect(call?.body.toString()).toBe(
      `{"request_id":"${requestId}","inference_status":{"status":"succeeded","runtime_ms":7,"cost":0.25},` +
        `"results":{"results":[{"generated_text":"Grüße"}]}}`,
    );
    const { secret } = await world.secret(account);
    expect(verified(secret, call as never)).toMatchObject({ request_id: requestId });
    expect(() => verified(`whsec_${Buffer.alloc(32).toString("base64")}`, call as never)).toThrow();
    expect(call?.headers).toMatchObject({
      "user-agent": "stoker-webhooks/1",
      "content-type": "application/json",
      "webhook-id": told.webhookId,
    });
    expect([call?.headers["authorization"], call?.headers.cookie]).toEqual([undefined, undefined]);
    expect(told).toMatchObject({ attempts: 1, lastStatus: 204, error: null });
  });

  it("that fails is delivered without results, and its account can read the reason", async () => {
    const world = await openWebhooks(postgres, {
      run: async () => {
        throw new InsufficientFunds();
      },
    });
    const account = await world.account(0n);
    const requestId = await world.ask(await world.callerIn(account));
    const { error } = await world.ended(account, requestId);
    expect(error?.code).toBe("insufficient_quota");
    expect(world.receiver.calls[0]?.body.toString()).toBe(
      `{"request_id":"${requestId}","inference_status":{"status":"failed","runtime_ms":0,"cost":0}}`,
    );
  });

  it("waits while its model is busy, and runs again after a break, with increasing attempt numbers", async () => {
    const began: number[] = [];
    const world = await openWebhooks(postgres, {
      run: async (job, caller, firstAttempt, signal) => {
        began.push(firstAttempt);
        if (began.length === 1) throw new EngineOverloaded(1);
        if (began.length === 2) throw upstreamBroken();
        return echo(job, caller, firstAttempt, signal);
      },
    });
    const account = await world.account(0n);
    const { error } = await world.ended(account, await world.ask(await world.callerIn(account)));
    expect(error).toBeNull();
    expect(began).toEqual([0, 100, 200]);
  });

  it("that always breaks off is delivered as failed", async () => {
    let runs = 0;
    const world = await openWebhooks(postgres, {
      run: async () => {
        runs += 1;
        throw upstreamBroken();
      },
    });
    const account = await world.account(0n);
    const { error } = await world.ended(account, await world.ask(await world.callerIn(account)));
    expect([error?.code, runs]).toEqual(["upstream_error", 5]);
  });

  it("is delivered as failed, after one run, when what the engine sent cannot be serialised", async () => {
    let runs = 0;
    let results: object = {};
    for (let i = 0; i < 100_000; i++) results = { results };
    const world = await openWebhooks(postgres, {
      run: async () => {
        runs += 1;
        return { results, runtimeMs: 7, cost: 0.25 };
      },
    });
    const account = await world.account(0n);
    const { error } = await world.ended(account, await world.ask(await world.callerIn(account)));
    expect([error?.code, error?.message, runs]).toEqual([
      "upstream_error",
      expect.stringContaining("expected form"),
      1,
    ]);
  });

  it("whose key was revoked meanwhile does not run", async () => {
    const world = await openWebhooks(postgres);
    const account = await world.account(0n);
    const caller = await world.callerIn(account);
    await world.tokenStore.revokeKey(account, caller.key, { by: account, ip, note: "" });
    const { error } = await world.ended(account, await world.ask(caller));
    expect(error?.code).toBe("invalid_api_key");
  });

  it("is deleted with its account, without a delivery", async () => {
    const started = Promise.withResolvers<void>();
    const go = Promise.withResolvers<void>();
    const world = await openWebhooks(postgres, {
      run: async (job, ...rest) => {
        started.resolve();
        await go.promise;
        return echo(job, ...rest);
      },
    });
    const account = await world.account(0n);
    await world.ask(await world.callerIn(account));
    await started.promise;
    expect(await createProfileStore(world.db).end({ account, ip })).toBe("ended");
    go.resolve();
    await world.stop();
    expect(world.receiver.calls).toEqual([]);
    expect((await world.pool.query("select 1 from webhook_job")).rows).toEqual([]);
  });

  it("retains the permissions of a scoped token, whatever the state of its key", async () => {
    const seen: unknown[] = [];
    const world = await openWebhooks(postgres, {
      run: async (job, caller, ...rest) => {
        seen.push([caller.via, [...(caller.models ?? [])], caller.spending.token, caller.isAdmin, caller.expiresAtMs]);
        return echo(job, caller, ...rest);
      },
    });
    const account = await world.account(0n);
    const caller = await world.callerIn(account);
    const token = { budget: "token/abc" as never, limit: 5_000_000_000_000_000_001n };
    const scoped = { ...caller, via: "jwt" as const, models: new Set(["org/model"]), expiresAtMs: 1 };
    await world.ended(account, await world.ask({ ...scoped, spending: { ...caller.spending, token } }));
    // Its end is past: it was valid when the request was accepted.
    expect(seen).toEqual([["jwt", ["org/model"], token, false, null]]);
  });

  it("with results above 5 MiB is delivered with a link to only those", async () => {
    const large = "x".repeat(6 * 1024 * 1024);
    const world = await openWebhooks(postgres, {
      run: async () => ({ results: { text: large }, runtimeMs: 1, cost: 0 }),
    });
    const account = await world.account(0n);
    const requestId = await world.ask(await world.callerIn(account));
    await world.ended(account, requestId);
    const told = JSON.parse(world.receiver.calls[0]?.body.toString() as string);
    const link = new URL(told.results.results_url);
    expect([told.request_id, link.origin]).toEqual([requestId, "https://stoker.example.com"]);
    const open = (id: string, expires: string, sig: string) => world.results(id, expires, sig);
    const [expires, sig] = [link.searchParams.get("expires") as string, link.searchParams.get("sig") as string];
    expect(JSON.parse((await open(requestId, expires, sig)).toString())).toEqual({ text: large });
    const wrong: [string, string, string][] = [
      [requestId, `${expires}0`, sig],
      ["other", expires, sig],
      [requestId, expires, "x"],
    ];
    for (const asked of wrong)
      await expect(open(...asked)).rejects.toMatchObject({ code: "webhook_results_not_found" });
  });
});

describe("the secret of an account", () => {
  it("is unique, stays until replaced, and then signs beside the new one", async () => {
    const world = await openWebhooks(postgres);
    const [account, other] = [await world.account(0n), await world.account(0n)];
    const all = await Promise.all(Array.from({ length: 5 }, () => world.secret(account)));
    const old = all[0]?.secret as string;
    expect(new Set(all.map(({ secret }) => secret))).toEqual(new Set([old]));
    expect(old).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
    expect((await world.secret(other)).secret).not.toBe(old);
    const fresh = await world.rotate({ account, ip, by: "u:person" });
    expect(fresh.secret).not.toBe(old);
    expect((fresh.previousUntilMs as number) / 3_600_000 - Date.now() / 3_600_000).toBeCloseTo(24, 0);
    await world.ended(account, await world.ask(await world.callerIn(account)));
    const [call] = world.receiver.calls;
    for (const secret of [old, fresh.secret]) expect(verified(secret, call as never)).toBeDefined();
    await world.pool.query(
      "update webhook_secret set previous_until = now() - interval '1 second' where account_id = $1",
      [account],
    );
    await world.ended(account, await world.ask(await world.callerIn(account)));
    expect(() => verified(old, world.receiver.calls[1] as never)).toThrow();
    expect(verified(fresh.secret, world.receiver.calls[1] as never)).toBeDefined();
    const { rows } = await world.pool.query("select encode(sealed, 'escape') as text from webhook_secret");
    expect(rows.map((row) => row.text).join()).not.toContain("whsec_");
    const audit = await world.pool.query("select actor, action from audit where action like 'webhook.%'");
    expect(audit.rows).toEqual([{ actor: "u:person", action: "webhook.rotate" }]);
  });
});

describe("the log of calls", () => {
  it("shows every attempt, repeats it on request with the same id and bytes, and belongs only to its account", async () => {
    const world = await openWebhooks(postgres);
    const [account, other] = [await world.account(0n), await world.account(0n)];
    world.receiver.answer((_call, res, count) =>
      count < 3 ? res.writeHead(500).end("busy\0".repeat(1000)) : res.writeHead(200).end("thanks"),
    );
    const requestId = await world.ask(await world.callerIn(account));
    const { webhookId } = await world.ended(account, requestId);
    const { delivery, attempts } = await world.delivery(account, webhookId);
    expect(attempts.map(({ number, status, outcome }) => [number, status, outcome])).toEqual([
      [1, 500, "5xx"],
      [2, 500, "5xx"],
      [3, 200, "ok"],
    ]);
    expect([attempts[0]?.answer.startsWith("busybusy"), attempts[2]?.answer]).toEqual([true, "thanks"]);
    expect(attempts[0]?.answer.length).toBeLessThanOrEqual(1024);
    expect(delivery).toMatchObject({ attempts: 3, state: "delivered", nextAttemptAtMs: null });

    await world.replay({ account, ip, by: "u:person" }, webhookId);
    await vi.waitFor(() => expect(world.receiver.calls).toHaveLength(4), patience);
    await world.ended(account, requestId);
    expect(new Set(world.receiver.calls.map(({ id, body }) => `${id} ${body.toString("base64")}`)).size).toBe(1);

    const audit = await world.pool.query("select actor, subject from audit where action = 'webhook.replay'");
    expect(audit.rows).toEqual([{ actor: "u:person", subject: webhookId }]);

    expect(await world.deliveries(other, undefined, 10)).toEqual({ deliveries: [], nextCursor: null });
    const refusal = { code: "webhook_delivery_not_found" };
    await expect(world.delivery(other, webhookId)).rejects.toMatchObject(refusal);
    await expect(world.replay({ account: other, ip }, webhookId)).rejects.toMatchObject(refusal);
  });

  it("is paginated, newest first", async () => {
    const world = await openWebhooks(postgres);
    const account = await world.account(0n);
    const caller = await world.callerIn(account);
    for (let i = 0; i < 3; i++) await world.ended(account, await world.ask(caller));
    const one = await world.deliveries(account, undefined, 2);
    const two = await world.deliveries(account, one.nextCursor as string, 2);
    expect([one.deliveries.length, two.deliveries.length, two.nextCursor]).toEqual([2, 1, null]);
    const ids = [...one.deliveries, ...two.deliveries].map((record) => record.webhookId);
    expect(ids).toEqual(ids.toSorted().toReversed());
    expect(new Set(ids).size).toBe(3);
    await expect(world.deliveries(account, "1", 2)).rejects.toMatchObject({ code: "bad_cursor" });
  });
});
