// The invariants I1 to I8, checked from outside: PostgreSQL, processes, metrics pages, the receiver, the model server and what clients saw.
// Each check returns what is wrong, in words; nothing: it holds.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { pino } from "pino";
import { createMonthClosing } from "../../../control-plane/billing/months.ts";
import { monthOf, monthStartMs } from "../../../control-plane/billing/period.ts";
import { checkBooks } from "../../../control-plane/store/core/check-books.ts";
import { type OpenDatabase, openDatabase } from "../../../control-plane/store/core/database.ts";
import { createInvoiceStore } from "../../../control-plane/store/money/invoice-store.ts";
import { seriesIn } from "../../fakes/exposition.ts";
import { verified } from "../../fakes/webhook-receiver.ts";
import { boxedModel, type ChaosWorld, tokenPrice } from "./chaos-world.ts";
import type { Clients, Outcome } from "./clients.ts";
import type { Inflicted } from "./inflict.ts";

export type Invariant = "I1" | "I2" | "I3" | "I4" | "I5" | "I6" | "I7" | "I8" | "P1" | "no-crash";

export interface Violation {
  readonly invariant: Invariant;
  readonly what: string;
}

/** An expired lease is swept long before, unless nobody sweeps, or a host is silent that may still have requests on it. */
const maxExpiredSeconds = 60;
const calmMs = 20_000;
const silentSeconds = 5;
const log = pino({ level: "silent" });

export interface Checker {
  /** What holds at every instant. Undefined: the database is down. */
  sample(): Promise<readonly Violation[] | undefined>;
  /** What holds once everything is healed: waits for it until the limit. */
  healed(limitMs: number): Promise<readonly Violation[]>;
  /** What holds once all instances are gone, which this brings about. */
  emptied(limitMs: number): Promise<readonly Violation[]>;
  close(): Promise<void>;
}

export function createChecker(world: ChaosWorld, clients: Clients, faults: () => readonly Inflicted[]): Checker {
  const database = openDatabase(world.stack.databaseUrl, { maxConnections: 2, log, connectTimeoutMs: 1_000 });
  const { pool } = database;
  const rows = async <Row extends object>(text: string, values: unknown[] = []): Promise<Row[]> =>
    (await pool.query<Row & Record<string, unknown>>(text, values)).rows as Row[];
  const untilNone = async (limitMs: number, check: () => Promise<readonly Violation[]>) => {
    const untilMs = performance.now() + limitMs;
    for (;;) {
      const found = await check().catch((error): Violation[] => [{ invariant: "P1", what: String(error) }]);
      if (found.length === 0 || performance.now() > untilMs) return found;
      await pause(250);
    }
  };

  let calmSinceMs: number | undefined;
  /** For a while a control plane is ready, and all hosts report. */
  async function hasSweeper(): Promise<boolean> {
    const ready = world.stack.controlPlanes.map(async ({ url }) => {
      const { ok } = await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(1_000) });
      if (!ok) throw new Error("not ready");
    });
    const isReady = await Promise.any(ready).then(
      () => true,
      () => false,
    );
    const [silent] = await rows<{ n: number }>(
      `select count(*)::int as n from host where seen_at < now() - make_interval(secs => ${silentSeconds})`,
    );
    calmSinceMs = isReady && silent?.n === 0 ? (calmSinceMs ?? performance.now()) : undefined;
    return calmSinceMs !== undefined && performance.now() - calmSinceMs > calmMs;
  }
  async function staleLeases(areSwept: boolean): Promise<Violation[]> {
    const stale = await rows<{ id: string }>(
      `select lease_id as id from lease where closed_at is null and expires_at < now() - make_interval(secs => ${maxExpiredSeconds})`,
    );
    if (!areSwept || stale.length === 0) return [];
    return [{ invariant: "I5", what: `expired a minute ago and open: ${stale.map(({ id }) => id).join(", ")}` }];
  }

  const crashed = (): Violation[] => world.crashes.map((what) => ({ invariant: "no-crash", what }));

  async function sample(): Promise<readonly Violation[] | undefined> {
    try {
      const accepted = [...clients.accepted];
      const found = [...crashed(), ...(await books(database)), ...(await strayInstances(world, rows))];
      found.push(...(await staleLeases(await hasSweeper())));
      const kept = await rows<{ id: string }>("select request_id as id from webhook_job where request_id = any($1)", [
        accepted,
      ]);
      if (kept.length < accepted.length) {
        const ids = new Set(kept.map(({ id }) => id));
        found.push({
          invariant: "I6",
          what: `accepted and not stored: ${accepted.filter((id) => !ids.has(id)).join(", ")}`,
        });
      }
      return found;
    } catch {
      calmSinceMs = undefined;
      return world.crashes.length === 0 ? undefined : crashed();
    }
  }

  return {
    sample,
    healed: (limitMs) =>
      untilNone(limitMs, async () => [
        ...((await sample()) ?? [{ invariant: "P1", what: "the database does not answer" }]),
        ...(await unpaid(world, clients.outcomes, faults(), rows)),
        ...(await missingInstances(world, rows)),
        ...(await openMoney(rows)),
        ...(await untoldWebhooks(world, clients.accepted, rows)),
      ]),
    async emptied(limitMs) {
      const removed = await removeDeployments(world);
      const left = await untilNone(limitMs, async () => [
        ...(await missingInstances(world, rows)),
        ...(await seriesOf(world, removed)),
        ...(await openMoney(rows)),
      ]);
      return [...left, ...(await wrongInvoices(database, rows))];
    },
    close: () => database.close(),
  };
}

type Rows = <Row extends object>(text: string, values?: unknown[]) => Promise<Row[]>;

/** I1, I2, I3 and the sums of days that invoices are made of, in one snapshot. */
async function books({ db }: OpenDatabase): Promise<Violation[]> {
  const is = await checkBooks(db);
  const found: Violation[] = [];
  const add = (invariant: Invariant, what: string, which: readonly string[]) =>
    which.length > 0 && found.push({ invariant, what: `${what}: ${which.slice(0, 5).join(", ")}` });
  if (is.imbalance !== 0n) found.push({ invariant: "I1", what: `the ledger sums to ${is.imbalance}` });
  add("I1", "transactions that do not sum to 0", is.unbalancedTransactions);
  add("I2", "requests with two charged attempts", is.doubleCaptures);
  add("I3", "budgets above their limit", is.aboveLimit);
  add("I3", "budgets that differ from their open leases", is.wrongLeased);
  add("I7", "budgets that differ from what was charged", is.wrongSpent);
  add("I7", "days whose sums differ from the ledger", is.wrongDays);
  return found;
}

/** Processes of instances that nobody ever wanted, or two of one. */
async function strayInstances(world: ChaosWorld, rows: Rows): Promise<Violation[]> {
  const running = await world.running();
  const known = new Set(
    (
      await rows<{ id: string }>("select instance_id as id from instance union select instance_id from ended_instance")
    ).map(({ id }) => id),
  );
  const stray = running.filter((id) => !known.has(id));
  const found: Violation[] = [];
  if (stray.length > 0) found.push({ invariant: "I4", what: `running and never wanted: ${stray.join(", ")}` });
  const twice = running.filter((id, at) => running.indexOf(id) !== at);
  if (twice.length > 0) found.push({ invariant: "I4", what: `running twice: ${twice.join(", ")}` });
  return found;
}

/** I4: what runs is what is desired, and everything desired serves. */
async function missingInstances(world: ChaosWorld, rows: Rows): Promise<Violation[]> {
  const desired = await rows<{ id: string; phase: string }>(
    // Models behind a URL have no process.
    "select instance_id as id, phase from instance where tombstoned_at is null and cardinality(gpu_uuids) > 0 order by 1",
  );
  const running = (await world.running()).toSorted();
  const found: Violation[] = [];
  if (JSON.stringify(running) !== JSON.stringify(desired.map(({ id }) => id)))
    found.push({
      invariant: "I4",
      what: `running ${running.join(", ")}; desired ${desired.map(({ id }) => id).join(", ")}`,
    });
  const unready = desired.filter(({ phase }) => phase !== "ready");
  if (unready.length > 0) found.push({ invariant: "I4", what: `not ready: ${JSON.stringify(unready)}` });
  return found;
}

/** I5 at rest: nothing is held, because nobody asks for anything. */
async function openMoney(rows: Rows): Promise<Violation[]> {
  const [is] = await rows<{ leases: number; held: string }>(
    `select (select count(*)::int from lease where closed_at is null) as leases,
            (select coalesce(sum(leased), 0)::text from budget) as held`,
  );
  if (is && is.leases === 0 && is.held === "0") return [];
  return [
    { invariant: "I5", what: `${is?.leases} leases are open and ${is?.held} is leased, although no request runs` },
  ];
}

/** I6: each was told, with one id and the same signed bytes, or given up. */
async function untoldWebhooks(world: ChaosWorld, accepted: readonly string[], rows: Rows): Promise<Violation[]> {
  const [open] = await rows<{ n: number }>(
    `select (select count(*) from webhook_job where finished_at is null)::int
          + (select count(*) from webhook_delivery where state = 'pending')::int as n`,
  );
  if (open?.n !== 0) return [{ invariant: "I6", what: `${open?.n} webhooks are neither delivered nor exhausted` }];
  const { secret } = (await world.stack.call("GET", "/v1/webhooks/secret")).body;
  const bodies = new Map<string, Set<string>>();
  for (const call of world.receiver.calls) {
    const { request_id } = verified(secret, call) as { request_id: string };
    bodies.set(request_id, (bodies.get(request_id) ?? new Set()).add(`${call.id} ${call.body}`));
  }
  const exhausted = new Set(
    (await rows<{ id: string }>("select request_id as id from webhook_delivery where state = 'exhausted'")).map(
      ({ id }) => id,
    ),
  );
  const untold = accepted.filter((id) => !bodies.has(id) && !exhausted.has(id));
  const found: Violation[] = [];
  if (untold.length > 0) found.push({ invariant: "I6", what: `accepted and never told: ${untold.join(", ")}` });
  const changed = [...bodies].filter(([, versions]) => versions.size > 1).map(([id]) => id);
  if (changed.length > 0) found.push({ invariant: "I6", what: `told with different bytes: ${changed.join(", ")}` });
  return found;
}

interface Billed {
  readonly id: string;
  readonly attempt: number;
  readonly model: string;
  readonly tokens: number;
  readonly charge: number;
}

/** P1 and P33: what came whole is billed exactly, what was cut for no less than came and no more than was sent, and a refusal costs nothing. */
async function unpaid(
  world: ChaosWorld,
  outcomes: readonly Outcome[],
  faults: readonly Inflicted[],
  rows: Rows,
): Promise<Violation[]> {
  const all = await rows<Billed>(
    `select request_id as id, attempt, model, output_tokens::int as tokens, charge::float8 as charge
     from usage where not voided and gpu_ms = 0`,
  );
  const billed = new Map(all.map((row) => [row.id, row]));
  const ran = world.ran();
  const found: Violation[] = [];
  for (const row of all) {
    if (row.model === boxedModel) continue;
    const made = ran.get(`${row.id}.${row.attempt}`) ?? 0;
    if (row.tokens > made || row.charge > made * tokenPrice)
      found.push({ invariant: "P1", what: `billed for more than the ${made} tokens that ran: ${JSON.stringify(row)}` });
  }
  found.push(...(await unpaidWebhooks(world, billed, ran)));
  const wrong = (outcome: Outcome, row: Billed | undefined): string | undefined => {
    if (outcome.kind === "refused") return row && row.charge > 0 ? "refused and billed" : undefined;
    if (!row) return outcome.tokens > 0 && !mayBeFree(outcome, faults) ? "delivered and not billed" : undefined;
    const paid = row.charge / tokenPrice;
    if (outcome.kind === "whole" && (row.tokens !== outcome.tokens || paid !== outcome.tokens))
      return "whole and billed for another number of tokens";
    // Of what was cut the record may say more than was delivered, which is what is paid.
    if (outcome.kind !== "cut") return undefined;
    if (paid > row.tokens) return "cut and paid for more than its record says";
    return paid < outcome.tokens && !mayBeFree(outcome, faults) ? "cut and paid for less than came" : undefined;
  };
  for (const outcome of outcomes) {
    if (outcome.id === "") continue;
    const row = billed.get(outcome.id);
    const why = wrong(outcome, row);
    if (why) found.push({ invariant: "P1", what: `${why}: ${JSON.stringify({ outcome, row })}` });
  }
  return found.slice(0, 5);
}

interface Told {
  readonly request_id: string;
  readonly inference_status: { readonly status: "succeeded" | "failed"; readonly cost: number };
}

/** P1 of requests that no client waits for: what was told as succeeded costs what ran and what the call says, a failure nothing. */
async function unpaidWebhooks(
  { stack, receiver }: ChaosWorld,
  billed: ReadonlyMap<string, Billed>,
  ran: ReadonlyMap<string, number>,
): Promise<Violation[]> {
  const { secret } = (await stack.call("GET", "/v1/webhooks/secret")).body;
  const told = receiver.calls.map((call) => verified(secret, call) as Told);
  const found: Violation[] = [];
  for (const { request_id: id, inference_status: is } of told) {
    const row = billed.get(id);
    const made = row && ran.get(`${id}.${row.attempt}`);
    const isPaid =
      is.status === "succeeded"
        ? row?.charge === (made ?? 0) * tokenPrice && row.charge === Math.round(is.cost * 1e9)
        : (row?.charge ?? 0) === 0;
    if (!isPaid)
      found.push({
        invariant: "P1",
        what: `told as ${is.status} at ${is.cost}, ${made} tokens ran: ${JSON.stringify({ id, row })}`,
      });
  }
  return found;
}

/**
 * The gateway that counted and the agent that recorded were both killed, the gateway before the database had its count: nobody is left who knows
 * (docs/reliability.md).
 */
function mayBeFree({ controlPlane, agent, sentMs, endedMs }: Outcome, faults: readonly Inflicted[]): boolean {
  // A gateway retries its count until the database has it.
  const countedMs = faults
    .filter(({ target }) => target === "postgres" || target === `control-plane-${controlPlane}>postgres`)
    .filter(({ beganMs, endedMs: isBackMs }) => beganMs <= endedMs + 2_000 && isBackMs >= endedMs)
    .reduce((latest, { endedMs: isBackMs }) => Math.max(latest, isBackMs), endedMs);
  const hit = (names: readonly string[], isTarget: (target: string) => boolean) =>
    faults.some(
      (one) =>
        names.includes(one.fault) && isTarget(one.target) && one.beganMs <= countedMs + 2_000 && one.endedMs >= sentMs,
    );
  const agentKills = [
    "kill-agent",
    "kill-agent-after-record",
    "kill-agents-after-start",
    "lose-state",
    "resend-records",
    "expire-certificate",
  ];
  return (
    hit(["kill-control-plane", "kill-at-point"], (target) => target === `control-plane-${controlPlane}`) &&
    hit(agentKills, (target) => agent === 0 || target === `agent-${agent}` || target === "agents")
  );
}

/** Deletes every deployment; returns their ids, and those of deleted ones. */
async function removeDeployments({ stack }: ChaosWorld): Promise<readonly string[]> {
  const listed: { deploy_id: string; status: string }[] = (await stack.call("GET", "/deploy/list")).body;
  for (const { deploy_id, status } of listed)
    if (status !== "deleted") await stack.call("DELETE", `/deploy/${deploy_id}`);
  return listed.map(({ deploy_id }) => deploy_id);
}

/** I8: no series is left that names what is gone. */
async function seriesOf({ stack, morePages }: ChaosWorld, deployments: readonly string[]): Promise<Violation[]> {
  const ports = [
    ...stack.controlPlanes.map(({ portsFile }) => Number(JSON.parse(readFileSync(portsFile, "utf8")).admin)),
    ...[1, 2, 3].map((n) =>
      Number(JSON.parse(readFileSync(join(stack.agentFolder(n), "agent.json"), "utf8")).metrics_port),
    ),
  ];
  const pages = [...ports.map((port) => `http://127.0.0.1:${port}/metrics`), ...morePages];
  const texts = await Promise.all(pages.map(async (url) => (await fetch(url)).text()));
  const left = texts.flatMap(seriesIn).filter((line) => deployments.some((id) => line.includes(`"${id}"`)));
  return left.length === 0
    ? []
    : [{ invariant: "I8", what: `${left.length} series of what is gone, such as ${left[0]}` }];
}

/** I7: closes the month as the job does, and adds every account's ledger up again. */
async function wrongInvoices({ db }: OpenDatabase, rows: Rows): Promise<Violation[]> {
  const next = monthStartMs(monthOf(Date.now()) + 1) + 4 * 3_600_000;
  const clock = { monotonicMs: () => performance.now(), unixMs: () => next };
  const charged = `select account_id as account, sum(amount)::text as total from ledger_entry
    where book = 'customer_spent' and kind <> 'invoice' group by 1 having sum(amount) <> 0 order by 1`;
  const expected = await rows(charged);
  await createMonthClosing({ store: createInvoiceStore(db), log, clock }).closeMonths();
  const made = await rows(
    `select i.account_id as account, i.total::text as total, (select coalesce(sum(cost), 0)::text from invoice_line l
       where l.invoice_id = i.invoice_id) as lines from invoice i order by 1`,
  );
  const wanted = expected.map((row) => ({ ...row, lines: (row as { total: string }).total }));
  if (JSON.stringify(made) === JSON.stringify(wanted)) return [];
  return [{ invariant: "I7", what: `invoices ${JSON.stringify(made)}; recomputed ${JSON.stringify(wanted)}` }];
}

export const linesOf = (violations: readonly Violation[]): string =>
  violations.map(({ invariant, what }) => `Invariant ${invariant}: ${what}`).join("\n");
