// What becomes of a quarantined usage record: an operator bills it or discards it, once.
import { afterAll, beforeAll, expect, it } from "vitest";
import { ticketSeals } from "../../../control-plane/accounts/seals.ts";
import { createQuarantineDesk } from "../../../control-plane/billing/quarantine-desk.ts";
import { checkBooks } from "../../../control-plane/store/core/check-books.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { recordOf, sealedText, testHost } from "../../fakes/seals.ts";
import { openWorld, tokenPrice, usageRecord, type World, wholeBooks } from "./world.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres.stop());

const usd = 1_000_000_000n;
const act = { by: "u:operator", ip: "192.0.2.1", note: "the key was removed too early" };
const deskOf = ({ quarantineStore: store, settlement }: World) => createQuarantineDesk({ store, settlement });
const auditOf = async (world: World) =>
  (await world.pool.query("select actor, action, subject, ip, note from audit where action like 'usage.quarantine%'"))
    .rows;

/** A record whose seal no key opens. */
const unproven = (world: World, account: Parameters<typeof usageRecord>[0]) => {
  const wire = usageRecord(account, { input: 3, output: 4 });
  const ticket = JSON.parse(wire.ticket as string);
  delete ticket.seal;
  const foreign = ticketSeals(world.secrets).newest();
  return { ...recordOf(ticket, wire), ticket: sealedText(ticket, foreign) };
};

it("is billed as its ticket says when it is released, once, with an audit row", async () => {
  const world = await openWorld(postgres);
  const desk = deskOf(world);
  const account = await world.account(usd);
  const record = unproven(world, account);
  expect(await world.settlement.settle([record], "1")).toEqual([record.spoolId]);
  expect(await world.budget(account)).toMatchObject({ spent: 0n });
  const { records, hosts, next } = await desk.list(undefined, 0n, 10);
  expect(hosts).toEqual([{ host: testHost, open: 1, dropped: 0 }]);
  expect(next).toBeUndefined();
  expect(records).toMatchObject([{ host: testHost, problem: "bad_seal", record: JSON.stringify(record) }]);
  const id = records[0]?.id as bigint;
  await desk.release(id, act);
  expect(await world.budget(account)).toMatchObject({ spent: 7n * tokenPrice });
  await expect(desk.release(id, act)).rejects.toMatchObject({ code: "quarantined_record_not_found" });
  expect(await desk.list(undefined, 0n, 10)).toEqual({ hosts: [], records: [], next: undefined });
  expect(await auditOf(world)).toEqual([
    { actor: act.by, action: "usage.quarantine_release", subject: `${record.requestId}/1`, ip: act.ip, note: act.note },
  ]);
  // The host sends it again: it is neither billed nor quarantined a second time.
  expect(await world.settlement.settle([record], "1")).toEqual([record.spoolId]);
  expect(await world.budget(account)).toMatchObject({ spent: 7n * tokenPrice });
  expect((await desk.list(undefined, 0n, 10)).records).toEqual([]);
  expect(await checkBooks(world.db)).toEqual(wholeBooks);
});

it("stays when it cannot be billed, and bills nothing when it is discarded", async () => {
  const world = await openWorld(postgres);
  const desk = deskOf(world);
  const account = await world.account(usd);
  const { ticket: _, ...unsealed } = usageRecord(account, { input: 3, output: 4 });
  await world.settlement.settle([unsealed], "1");
  const [record] = (await desk.list(testHost, 0n, 10)).records;
  await expect(desk.release(record?.id as bigint, act)).rejects.toMatchObject({
    code: "quarantined_record_not_releasable",
  });
  await desk.discard(record?.id as bigint, act);
  await expect(desk.discard(record?.id as bigint, act)).rejects.toMatchObject({ code: "quarantined_record_not_found" });
  expect(await world.budget(account)).toMatchObject({ spent: 0n });
  expect(await auditOf(world)).toMatchObject([{ action: "usage.quarantine_discard", note: act.note }]);
});

it.each<[fault: string, change: object]>([
  ["units without rates", { units: {} }],
  ["units that are a number", { units: 5 }],
  ["unit rates that are null", { units: { rates: null } }],
  ["a rate that has no text", { rates: [{ toString: 1, valueOf: 1 }, "1", "1"] }],
  ["an attempt that has no text", { attempt: { toString: 1, valueOf: 1 } }],
  ["a request id that has no text", { requestId: { toString: 1, valueOf: 1 } }],
  ["lease ids that are null", { leaseIds: null }],
  ["a bound that is text", { inputTokensBound: "5" }],
  ["a price version that is an object", { priceVersion: { toString: 1, valueOf: 1 } }],
])("cannot be released when its ticket has %s", async (_, change) => {
  const world = await openWorld(postgres);
  const desk = deskOf(world);
  const { ticket, ...wire } = usageRecord(await world.account(usd), { input: 3, output: 4 });
  const { seal: __, ...terms } = JSON.parse(ticket as string);
  await world.settlement.settle([{ ...wire, ticket: JSON.stringify({ ...terms, ...change }) }], "1");
  const [record] = (await desk.list(testHost, 0n, 10)).records;
  await expect(desk.release(record?.id as bigint, act)).rejects.toMatchObject({
    code: "quarantined_record_not_releasable",
  });
});

it.each(["endedAtMs", "nodeEpoch", "inputTokens", "characters", "queueMs", "source"])(
  "cannot be released when its %s has no text",
  async (field) => {
    const world = await openWorld(postgres);
    const desk = deskOf(world);
    const record = unproven(world, await world.account(usd));
    await world.settlement.settle([{ ...record, [field]: { toString: 1, valueOf: 1 } }], "1");
    const [found] = (await desk.list(testHost, 0n, 10)).records;
    await expect(desk.release(found?.id as bigint, act)).rejects.toMatchObject({
      code: "quarantined_record_not_releasable",
    });
  },
);

it("is listed by page and discarded with all others of its host", async () => {
  const world = await openWorld(postgres);
  const desk = deskOf(world);
  const account = await world.account(usd);
  await world.settlement.settle(
    [1, 2, 3].map(() => unproven(world, account)),
    "1",
  );
  const first = await desk.list(testHost, 0n, 2);
  expect(first.records).toHaveLength(2);
  expect((await desk.list(testHost, first.next as bigint, 2)).records).toHaveLength(1);
  expect(await desk.discardHost(testHost, act)).toBe(3);
  expect((await desk.list(testHost, 0n, 2)).records).toEqual([]);
  expect(await auditOf(world)).toMatchObject([{ action: "usage.quarantine_discard", subject: testHost }]);
});

it("waits unacknowledged while the key of its seal is on its way to this control plane", async () => {
  const world = await openWorld(postgres);
  const account = await world.account(usd);
  const keks = [...world.secrets.keks, { version: 2, bytes: Buffer.alloc(32, 5) }].reverse();
  const rotated = ticketSeals({ ...world.secrets, keks });
  const record = usageRecord(account, { input: 3, output: 4 });
  const ticket = JSON.parse(record.ticket as string);
  delete ticket.seal;
  const sealed = { ...record, ticket: sealedText(ticket, rotated.newest()) };
  let known = world.secrets.keks;
  let nowMs = 0;
  const secrets = {
    pepper: world.secrets.pepper,
    get keks() {
      return known;
    },
  };
  const late = world.openSettlement({ seals: ticketSeals(secrets, () => nowMs) });
  expect(await late.settle([sealed], "1")).toEqual([]);
  expect((await deskOf(world).list(undefined, 0n, 10)).records).toEqual([]);
  known = keks;
  nowMs = 2_000;
  expect(await late.settle([sealed], "1")).toEqual([sealed.spoolId]);
  expect(await world.budget(account)).toMatchObject({ spent: 7n * tokenPrice });
  // Sealed with the key before the rotation, by a control plane that had only that one: still valid.
  const older = usageRecord(account, { input: 1, output: 0 });
  const olderTicket = JSON.parse(older.ticket as string);
  delete olderTicket.seal;
  const before = { ...older, ticket: sealedText(olderTicket, ticketSeals(world.secrets).newest()) };
  expect(await late.settle([before], "1")).toEqual([before.spoolId]);
  expect(await world.budget(account)).toMatchObject({ spent: 8n * tokenPrice });
});
