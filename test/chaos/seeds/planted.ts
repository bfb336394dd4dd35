// One defect for each invariant, planted from outside into a world at rest: edits of the database, a process that nobody wanted, a
// metrics page that keeps what is gone. Each is taken back.
import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { query } from "../../e2e/spine/database.ts";
import { type ChaosWorld, tokenPrice } from "./chaos-world.ts";
import type { Invariant } from "./invariants.ts";

export interface Planted {
  readonly invariant: Invariant;
  readonly what: string;
  /** Returns what takes it back. */
  plant(world: ChaosWorld): Promise<() => unknown>;
}

/** An edit as a superuser, whom no trigger stops. */
const edit =
  (text: string, back: string): Planted["plant"] =>
  async ({ stack }) => {
    const run = (sql: string) => query(stack.databaseUrl, `set session_replication_role = replica; ${sql}`);
    await run(text);
    return () => run(back);
  };
const aBudget = "(select budget_id from budget where scope = 'account' and spent > 0 order by 1 limit 1)";
const aDay = "ctid = (select ctid from usage_day where cost > 0 order by ctid limit 1)";
const aCharge =
  "request_id = (select request_id from usage where charge > 0 and not voided order by 1 limit 1) and not voided";

export const defects: readonly Planted[] = [
  {
    invariant: "I1",
    what: "an entry without its counterpart",
    plant: edit(
      "insert into ledger_entry (transaction_id, book, amount, kind) values ('planted', 'platform_loss', 1, 'planted')",
      "delete from ledger_entry where transaction_id = 'planted'",
    ),
  },
  {
    invariant: "I2",
    what: "a second charged attempt",
    plant: edit(
      `insert into usage select (jsonb_populate_record(u, '{"attempt": 99}')).* from usage u where ${aCharge}`,
      "delete from usage where attempt = 99",
    ),
  },
  {
    invariant: "I3",
    what: "a budget that leased more than its leases hold",
    plant: edit(
      `update budget set leased = leased + 1 where budget_id = ${aBudget}`,
      `update budget set leased = leased - 1 where budget_id = ${aBudget}`,
    ),
  },
  {
    invariant: "I3",
    what: "a budget above its limit",
    plant: edit(
      `create table planted as select * from budget where budget_id = ${aBudget};
       update budget set lim = spent - 1 where budget_id = ${aBudget}`,
      "update budget b set lim = p.lim from planted p where p.budget_id = b.budget_id; drop table planted",
    ),
  },
  { invariant: "I4", what: "an instance that nobody wanted", plant: strayInstance },
  {
    invariant: "I5",
    what: "a lease without a holder",
    plant: edit(
      `insert into lease (lease_id, budget_id, replica_id, replica_epoch, granted, expires_at)
         values ('planted', ${aBudget}, 'nobody', 1, 0, now() + interval '1 hour')`,
      "delete from lease where lease_id = 'planted'",
    ),
  },
  {
    invariant: "I6",
    what: "an accepted webhook that is lost",
    plant: edit(
      `create table planted as select * from webhook_job where request_id = (select min(request_id) from webhook_job);
       delete from webhook_job where request_id = (select request_id from planted)`,
      "insert into webhook_job select * from planted; drop table planted",
    ),
  },
  {
    invariant: "I7",
    what: "a day whose sum is not the ledger's",
    plant: edit(
      `create table planted as select * from usage_day where ${aDay}; update usage_day set cost = cost + 1 where ${aDay}`,
      `delete from usage_day u using planted p where (u.account_id, u.month, u.day, u.key_id, u.model, u.price_version, u.discount_id)
         = (p.account_id, p.month, p.day, p.key_id, p.model, p.price_version, p.discount_id);
       insert into usage_day select * from planted; drop table planted`,
    ),
  },
  {
    invariant: "I7",
    what: "an invoice that was changed",
    plant: edit("update invoice set total = total + 1", "update invoice set total = total - 1"),
  },
  { invariant: "I8", what: "a page that keeps a series of what is gone", plant: stalePage },
  {
    invariant: "P1",
    what: "requests that are charged one token more",
    plant: edit(
      `update usage set charge = charge + ${tokenPrice} where charge > 0`,
      `update usage set charge = charge - ${tokenPrice} where charge > 0`,
    ),
  },
];

async function strayInstance({ stack }: ChaosWorld): Promise<() => unknown> {
  const folder = join(stack.agentFolder(1), "instances", "stray");
  const child: ChildProcess = spawn("sleep", ["60"], { stdio: "ignore" });
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "process.json"), JSON.stringify({ pid: child.pid, instanceId: "stray" }));
  return () => {
    child.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  };
}

async function stalePage(world: ChaosWorld): Promise<() => unknown> {
  const text = `stoker_agent_instance_state{deploy_id="${world.tinyDeployment}"} 1\n`;
  const server = createServer((_, res) => res.end(text));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  world.morePages.push(`http://127.0.0.1:${(server.address() as AddressInfo).port}/metrics`);
  return () => {
    world.morePages.pop();
    server.close();
    server.closeAllConnections();
  };
}
