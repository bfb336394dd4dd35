// One defect for each invariant, planted from outside into a world at rest: edits of the database, a process that nobody wanted, a
// metrics page that keeps what is gone. Each is taken back.
import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { Webhook } from "standardwebhooks";
import { expect, vi } from "vitest";
import { query } from "../../e2e/spine/database.ts";
import type { ControlPlane, Part } from "../../fakes/processes.ts";
import type { ReceivedCall } from "../../fakes/webhook-receiver.ts";
import { boxedModel, type ChaosWorld, tokenPrice } from "./chaos-world.ts";
import type { Invariant } from "./invariants.ts";

export interface Planted {
  readonly invariant: Invariant;
  readonly what: string;
  /** Returns what takes it back. */
  plant(world: ChaosWorld): Promise<() => unknown>;
}

const patient = { timeout: 60_000, interval: 100 };

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
/** The book of an instance in a container is not read. */
const aCharge = `request_id = (select request_id from usage where charge > 0 and not voided and model <> '${boxedModel}' order by 1 limit 1)
  and not voided`;

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
    invariant: "I1",
    what: "two transactions that only together sum to 0",
    plant: edit(
      `insert into ledger_entry (transaction_id, book, amount, kind)
         values ('planted-1', 'platform_loss', 1, 'planted'), ('planted-2', 'platform_loss', -1, 'planted')`,
      "delete from ledger_entry where transaction_id like 'planted-_'",
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
  { invariant: "I4", what: "an instance that nobody wanted", plant: (world) => runningAt(world, "stray", [1]) },
  { invariant: "I4", what: "an instance that runs on two hosts", plant: runningTwice },
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
  { invariant: "I6", what: "a webhook that is told a second time with other bytes", plant: otherBytes },
  {
    invariant: "I7",
    what: "a budget that spent more than was charged",
    plant: edit(
      `update budget set spent = spent + 1 where budget_id = ${aBudget}`,
      `update budget set spent = spent - 1 where budget_id = ${aBudget}`,
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
  {
    invariant: "P1",
    what: "a charge for what no engine ran",
    plant: edit(
      `insert into usage select (jsonb_populate_record(u, '{"request_id": "planted"}')).* from usage u where ${aCharge}`,
      "delete from usage where request_id = 'planted'",
    ),
  },
  {
    invariant: "P1",
    what: "delivered webhooks that cost nothing",
    plant: edit(
      `create table planted as select * from usage where charge > 0 and request_id in (select request_id from webhook_job);
       update usage u set charge = 0 from planted p where u.request_id = p.request_id and u.attempt = p.attempt`,
      `update usage u set charge = p.charge from planted p where u.request_id = p.request_id and u.attempt = p.attempt;
       drop table planted`,
    ),
  },
  { invariant: "no-crash", what: "an agent that ends of an uncaught exception", plant: crashingAgent },
  { invariant: "no-crash", what: "a control plane that a signal ends", plant: signalledControlPlane },
];

/** Processes that are noted as instance `id` on these agents. */
async function runningAt({ stack }: ChaosWorld, id: string, agents: readonly number[]): Promise<() => unknown> {
  const started = agents.map((n) => {
    const folder = join(stack.agentFolder(n), "instances", "stray");
    const child = spawn("sleep", ["60"], { stdio: "ignore" });
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, "process.json"), JSON.stringify({ pid: child.pid, instanceId: id }));
    return { child, folder };
  });
  return () => {
    for (const { child, folder } of started) {
      child.kill("SIGKILL");
      rmSync(folder, { recursive: true, force: true });
    }
  };
}

/** One that is gone: the checker knows its id. */
async function runningTwice(world: ChaosWorld): Promise<() => unknown> {
  const known = "select instance_id as id from instance union select instance_id from ended_instance limit 1";
  const [ended] = await query<{ id: string }>(world.stack.databaseUrl, known);
  return runningAt(world, ended?.id ?? "", [2, 3]);
}

async function otherBytes({ stack, receiver }: ChaosWorld): Promise<() => unknown> {
  const { secret } = (await stack.call("GET", "/v1/webhooks/secret")).body;
  const calls = receiver.calls as ReceivedCall[];
  const first = calls[0] as ReceivedCall;
  const body = Buffer.concat([first.body, Buffer.from(" ")]);
  const now = new Date();
  const headers = {
    "webhook-id": first.id,
    "webhook-timestamp": String(Math.floor(now.getTime() / 1_000)),
    "webhook-signature": new Webhook(secret).sign(first.id, now, body.toString()),
  };
  calls.push({ ...first, headers, body });
  return () => calls.pop();
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

/** An agent that throws as soon as it catches its defects. */
async function crashingAgent({ stack, crashes }: ChaosWorld): Promise<() => unknown> {
  const [agent] = stack.agents as [Part];
  const defect = `const t=setInterval(()=>{if(process.listenerCount("uncaughtException"))throw Error("planted")},20);t.unref()`;
  await agent.kill9();
  agent.start({ NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(defect)}` });
  await vi.waitFor(() => expect(crashes.join()).toContain("planted"), patient);
  return async () => {
    crashes.length = 0;
    agent.start();
    const file = join(stack.agentFolder(1), "agent.json");
    await vi.waitFor(() => expect(JSON.parse(readFileSync(file, "utf8")).pid).toBe(agent.pid), patient);
  };
}

async function signalledControlPlane({ stack, crashes }: ChaosWorld): Promise<() => unknown> {
  const [, second] = stack.controlPlanes as [ControlPlane, ControlPlane];
  process.kill(second.pid, "SIGSEGV");
  await vi.waitFor(() => expect(crashes.join()).toContain("SIGSEGV"), patient);
  return async () => {
    crashes.length = 0;
    second.start();
    await vi.waitFor(async () => expect((await fetch(`${second.url}/readyz`)).status).toBe(200), patient);
    await vi.waitFor(() => expect(JSON.parse(readFileSync(second.portsFile, "utf8")).pid).toBe(second.pid), patient);
  };
}
