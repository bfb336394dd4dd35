// Alerts of limits as mails, through a real SMTP server and from a real database.
import { Registry } from "prom-client";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { createOutbox } from "../../../control-plane/mail/outbox.ts";
import { createSmtp } from "../../../control-plane/mail/smtp.ts";
import { createMailStore } from "../../../control-plane/store/work/mail-store.ts";
import { type AccountId, randomId } from "../../../proto/ids.ts";
import { startMailServer, type TestMailServer } from "../../fakes/mail-server.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { type BillingWorld, by, openBillingWorld, usd } from "./billing-world.ts";
import { log, usageRecord } from "./world.ts";

const from = "Stoker <stoker@example.com>";
const mail = { makeId: () => `mail_${randomId(20)}`, billingUrl: "https://stoker.example.com/console/billing" };

let postgres: TestDatabases;
let server: TestMailServer;
beforeAll(async () => {
  [postgres, server] = await Promise.all([sharedPostgres(), startMailServer("a secret: 1/2")]);
});
beforeEach(() => {
  server.refuse = undefined;
  server.accepted.length = 0;
  server.recipients.length = 0;
});
afterAll(async () => {
  await server.close();
  await postgres.stop();
});

function outboxOf(world: BillingWorld, url = server.url) {
  const { deliver } = createOutbox({
    store: createMailStore(world.db),
    server: createSmtp({ url, from }),
    linkOf: undefined,
    log,
    registry: new Registry(),
  });
  return () => deliver(new AbortController().signal);
}

/** Spends 6 of 10 USD. */
async function alerted(world: BillingWorld, change?: (account: AccountId) => Promise<unknown>): Promise<AccountId> {
  const account = await world.account(1000n * usd);
  await world.billing.limits.setAccount(account, 10n * usd, by);
  await change?.(account);
  const terms = { holdNanoUsd: String(6n * usd), admittedAtMs: String(world.clock.unixMs()) };
  await world.settlement.settle([usageRecord(account, { input: 0, output: 6_000_000 }, terms)], "1");
  await world.make(undefined, mail).limitAlerts.watch();
  return account;
}

const stateOf = async (world: BillingWorld, account: AccountId) =>
  (await world.billing.limitAlerts.list(account, 10)).map((one) => one.mail);
const rowOf = async (world: BillingWorld, account: AccountId) =>
  (await world.pool.query("select * from mail where account_id = $1", [account])).rows[0];
const makeDue = (world: BillingWorld) => world.pool.query("update mail set due_at = now() where state = 'pending'");

/** Without the line breaks of quoted-printable. */
const decoded = (message = "") => message.replaceAll("=\r\n", "");

it("is sent once to the account's address, with control planes that deliver at the same time", async () => {
  const world = await openBillingWorld(postgres);
  const account = await alerted(world);
  expect(await stateOf(world, account)).toEqual(["pending"]);
  await Promise.all([1, 2, 3].map(() => outboxOf(world)()));
  await makeDue(world);
  await outboxOf(world)();
  expect(server.accepted).toHaveLength(1);
  const message = decoded(server.accepted[0]);
  const { recipient, mail_id: id } = await rowOf(world, account);
  expect(message).toContain(`To: ${recipient}`);
  expect(message).toContain(`From: ${from}`);
  expect(message).toContain(`Message-ID: <${id}@example.com>`);
  expect(message).toContain("Subject: 50 % of the monthly limit of your account is spent");
  expect(message).toContain("USD 6.00 of its monthly limit of USD 10.00");
  expect(message).toContain(mail.billingUrl);
  expect(await stateOf(world, account)).toEqual(["sent"]);
});

it("waits while the mail server cannot be reached or refuses for now, and fails where it refuses for good", async () => {
  const world = await openBillingWorld(postgres);
  const account = await alerted(world);
  await outboxOf(world, "smtp://127.0.0.1:1")();
  expect(await stateOf(world, account)).toEqual(["pending"]);
  await outboxOf(world, server.url.replace("a%20secret", "another"))();
  expect(await stateOf(world, account)).toEqual(["pending"]);
  await makeDue(world);
  server.refuse = { code: 451, message: "try later" };
  await outboxOf(world)();
  expect(await rowOf(world, account)).toMatchObject({ state: "pending", attempts: 2 });
  expect((await rowOf(world, account)).error).toContain("try later");
  await makeDue(world);
  server.refuse = { code: 550, message: "no such mailbox" };
  await outboxOf(world)();
  expect(await stateOf(world, account)).toEqual(["failed"]);
  await makeDue(world);
  server.refuse = undefined;
  await outboxOf(world)();
  expect(server.accepted).toEqual([]);
});

it("is not sent where the customer turned it off, to an address that is not verified, or beyond 20 a day", async () => {
  const world = await openBillingWorld(postgres);
  const off = await alerted(world, (account) => world.billing.paying.setAlertMail(account, false, by));
  const unverified = await alerted(world, (account) =>
    world.pool.query("update account set email_verified = false where account_id = $1", [account]),
  );
  const flooded = await alerted(world, (account) =>
    world.pool.query(
      `insert into mail (mail_id, account_id, recipient, subject, body, state)
       select 'mail_old' || n, $1, '', '', '', 'sent' from generate_series(1, 20) n`,
      [account],
    ),
  );
  for (const account of [off, unverified, flooded]) expect(await stateOf(world, account)).toEqual([null]);
  await outboxOf(world)();
  expect(server.accepted).toEqual([]);
});

it("makes one recipient of any address", async () => {
  const world = await openBillingWorld(postgres);
  const strange = "eve@evil.example,ada@example.com";
  const account = await alerted(world, (uid) =>
    world.pool.query("update account set email = $2 where account_id = $1", [uid, strange]),
  );
  await outboxOf(world)();
  expect(["sent", "failed"]).toContain((await rowOf(world, account)).state);
  expect(server.recipients.filter((one) => one !== strange)).toEqual([]);
});
