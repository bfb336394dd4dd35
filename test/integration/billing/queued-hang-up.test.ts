// A client that hangs up while its request waits at the agent: from the agent's queue through its spool and the settlement
// to the money of the account.
import { afterAll, beforeAll, expect, it, onTestFinished, vi } from "vitest";
import { InsufficientFunds } from "../../../control-plane/billing/hold.ts";
import { checkBooks } from "../../../control-plane/store/core/check-books.ts";
import { signTicket } from "../../../proto/ticket.ts";
import { instanceId, openCall, startDataPath, ticketFor, ticketKey } from "../../fakes/data-path.ts";
import { startFakeEngine } from "../../fakes/engine.ts";
import { promisedMs } from "../../fakes/nightly.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { testHost, testSeals } from "../../fakes/seals.ts";
import { pendingRecords } from "../../fakes/usage-record.ts";
import { ask, openWorld, patience, wholeBooks } from "./world.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres.stop());

const usd = 1_000_000_000n;

it("frees the customer's money within a second of the hang-up", async () => {
  const world = await openWorld(postgres);
  const account = await world.account(usd);
  const budgets = await world.replica();
  const engine = await startFakeEngine({ tokens: 100_000, tokenMs: 20 });
  const path = await startDataPath(engine.origin);
  path.target({ maxBatchSize: 1 });
  budgets.start();
  onTestFinished(async () => {
    await path.close();
    await engine.close();
    await budgets.stop();
  });
  path.spool.onPending(async () => {
    const records = await pendingRecords(path.spool, 100);
    await path.spool.acknowledge(await world.settlement.settle(records, "3", testHost));
  });
  const others = new AbortController();
  const running = openCall(path.port, { ticket: { maxTokens: 100_000 }, signal: others.signal });
  await expect.poll(() => engine.running).toBe(1);

  const request = ask(account, usd);
  const hold = await budgets.hold(request);
  const client = new AbortController();
  const ticket = ticketFor({
    requestId: request.requestId,
    account,
    leaseIds: hold.leaseIds,
    hold: String(hold.amount),
  });
  const header = signTicket(ticket, ticketKey, testSeals.newest());
  const queued = openCall(path.port, { header, signal: client.signal });
  await expect.poll(() => path.ingress.stats(instanceId).waiting).toBe(1);
  await expect(async () => budgets.hold(ask(account, usd))).rejects.toThrow(InsufficientFunds);

  const hungUpMs = performance.now();
  client.abort();
  hold.awaitRecord(1);
  await queued.reply.catch(() => {});
  const whole = await vi.waitFor(async () => budgets.hold(ask(account, usd)), patience);
  expect(whole.amount).toBe(usd);
  expect(performance.now() - hungUpMs).toBeLessThan(promisedMs(1_000));
  const rows = await world.db
    .selectFrom("usage")
    .select(["attempt", "charge", "inputTokens", "outputTokens", "endReason"])
    .where("requestId", "=", request.requestId)
    .execute();
  expect(rows).toEqual([{ attempt: 1, charge: 0n, inputTokens: 0n, outputTokens: 0n, endReason: "client_gone" }]);
  expect(await checkBooks(world.db)).toEqual(wholeBooks);
  others.abort();
  await running.reply.catch(() => {});
});
