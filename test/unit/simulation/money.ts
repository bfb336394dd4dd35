// Held money: control planes that lease from limits, hold, settle, die and are replaced; a database whose calls come late, out of order, or
// lose their request or reply; and agents that keep records until these are settled, some of them twice.
import { pino } from "pino";
import { Registry } from "prom-client";
import type { Hold } from "../../../control-plane/billing/hold.ts";
import { createBudgets, type RunningBudgets } from "../../../control-plane/billing/leases.ts";
import { createBillingMetrics } from "../../../control-plane/billing/metrics.ts";
import { sliceTiming } from "../../../control-plane/billing/slices.ts";
import type { GivenBack, LeaseStore, Replica } from "../../../control-plane/billing/store.ts";
import {
  type AccountId,
  accountBudget,
  type BudgetId,
  type KeyId,
  type LeaseId,
  type ReplicaId,
  type RequestId,
} from "../../../proto/ids.ts";
import { nano } from "../../../proto/money.ts";
import { post, type UsageRow } from "../../fakes/post.ts";
import type { Seeded } from "../../fakes/seed.ts";
import type { Simulated, Simulation } from "./simulate.ts";

const log = pino({ level: "silent" });
const accounts = ["u:ada", "u:bob"] as AccountId[];
const key = "key" as KeyId;
const rates = { input: 0n, cachedInput: 0n, output: 1n } as UsageRow["rates"];

interface BudgetInBooks {
  readonly limit: bigint | null;
  spent: bigint;
  leased: bigint;
}

interface LeaseInBooks {
  readonly budgetId: BudgetId;
  readonly owner: Replica;
  granted: bigint;
  settled: bigint;
  isOpen: boolean;
  expiresAtMs: number;
}

/** A request, from its hold until its record is settled. */
interface Request {
  readonly id: RequestId;
  readonly account: AccountId;
  readonly hold: Hold;
  readonly gateway: Gateway;
  state: "held" | "running" | "recorded";
  cost: bigint;
}

interface Gateway {
  readonly replica: Replica;
  readonly budgets: RunningBudgets;
  isAlive: boolean;
  isTicking: boolean;
}

/** A call of the database that is under way. */
interface Call {
  readonly gateway: Gateway | undefined;
  readonly name: string;
  run(): () => void;
  fail(): void;
}

const overspending = "a grant beyond the limit";
const hasty = "a sweep that returns leases of requests that run";
const repeated = "a record that is posted twice";

function create(random: Seeded, defect?: string): Simulated {
  let nowMs = 1_000_000;
  let wrong: string | undefined;
  let serial = 0;
  let epochs = 0n;
  const budgets = new Map<BudgetId, BudgetInBooks>();
  const leases = new Map<LeaseId, LeaseInBooks>();
  const rows = new Map<RequestId, UsageRow>();
  const calls: Call[] = [];
  const requests = new Set<Request>();
  const settled: Request[] = [];
  const gateways: Gateway[] = [];
  for (const account of accounts)
    budgets.set(accountBudget(account), { limit: BigInt(random.between(0, 30_000)), spent: 0n, leased: 0n });
  const token = { budget: "jwt/1" as BudgetId, limit: BigInt(random.between(0, 6_000)) };
  const clock = { monotonicMs: () => nowMs, unixMs: () => nowMs };

  const isOurs = (lease: LeaseInBooks | undefined, replica: Replica) =>
    lease?.isOpen === true && lease.owner.epoch === replica.epoch;

  function giveUp(
    ids: readonly LeaseId[],
    decide: (id: LeaseId, left: bigint) => readonly [bigint, boolean],
  ): GivenBack[] {
    return ids.map((leaseId) => {
      const lease = leases.get(leaseId) as LeaseInBooks;
      const left = lease.granted > lease.settled ? lease.granted - lease.settled : 0n;
      const [given, isClosed] = decide(leaseId, left);
      lease.granted -= given;
      lease.isOpen = !isClosed;
      (budgets.get(lease.budgetId) as BudgetInBooks).leased -= given;
      return { leaseId, given, isClosed };
    });
  }

  /** What store/money/lease-store.ts does in SQL, on maps. */
  function storeOf(gateway: () => Gateway | undefined): LeaseStore {
    function call<T>(name: string, effect: () => T): Promise<T> {
      const { promise, resolve, reject } = Promise.withResolvers<T>();
      const fail = () => reject(new Error("connection lost"));
      const run = () => {
        const value = effect();
        return () => resolve(value);
      };
      calls.push({ gateway: gateway(), name, run, fail });
      return promise;
    }
    return {
      registerReplica: async (id) => ({ id, epoch: ++epochs }),
      touchReplica: async () => {},
      grant: (replica, scopes, ttlMs, size) =>
        call("grant", () => {
          for (const { budget } of scopes)
            if (!budgets.has(budget.budgetId))
              budgets.set(budget.budgetId, { limit: budget.limit, spent: 0n, leased: 0n });
          const gone = scopes.filter((one) => !one.isNew && !isOurs(leases.get(one.leaseId), replica));
          if (gone.length > 0) return { kind: "gone", leaseIds: gone.map((one) => one.leaseId) } as const;
          const available = scopes.map(({ budget }) => {
            const { limit, spent, leased } = budgets.get(budget.budgetId) as BudgetInBooks;
            if (limit === null) return undefined;
            const taken = defect === overspending ? spent : spent + leased;
            return limit > taken ? limit - taken : 0n;
          });
          const sizes = size(scopes.map(({ free }, i) => ({ free, available: available[i] })));
          const amounts = sizes.amounts.map((amount, i) => {
            const max = available[i];
            return max !== undefined && amount > max ? max : amount;
          });
          for (const [i, { budget, leaseId }] of scopes.entries()) {
            const amount = amounts[i] ?? 0n;
            if (amount === 0n) continue;
            (budgets.get(budget.budgetId) as BudgetInBooks).leased += amount;
            const lease = leases.get(leaseId);
            if (lease) lease.granted += amount;
            else {
              const fresh = { budgetId: budget.budgetId, owner: replica, granted: amount, settled: 0n, isOpen: true };
              leases.set(leaseId, { ...fresh, expiresAtMs: nowMs + ttlMs });
            }
          }
          return { kind: "granted", amounts } as const;
        }),
      sync: (replica, leaseIds, asked, ttlMs) =>
        call("sync", () => {
          const ours = leaseIds.filter((id) => isOurs(leases.get(id), replica));
          const states = ours.map((leaseId) => {
            const lease = leases.get(leaseId) as LeaseInBooks;
            lease.expiresAtMs = nowMs + ttlMs;
            return { leaseId, granted: lease.granted, settled: lease.settled };
          });
          return { leases: states, recorded: new Map(asked.filter((id) => rows.has(id)).map((id) => [id, [1]])) };
        }),
      giveBack: (replica, items) =>
        call("give back", () => {
          const ours = items.filter((item) => isOurs(leases.get(item.leaseId), replica));
          const asked = new Map(ours.map((item) => [item.leaseId, item]));
          return giveUp([...asked.keys()], (id, left) => {
            const item = asked.get(id);
            const amount = item && item.amount < left ? item.amount : left;
            return [amount, item?.mayClose === true && amount === left];
          });
        }),
      expiredLeases: (graceMs) =>
        call("expired leases", () =>
          [...leases].filter(([, one]) => one.isOpen && one.expiresAtMs < nowMs - graceMs).map(([id]) => id),
        ),
      closeExpired: (ids, graceMs) =>
        call("close expired", () => {
          const expired = ids.filter((id) => {
            const lease = leases.get(id);
            return lease?.isOpen === true && lease.expiresAtMs < nowMs - graceMs;
          });
          return giveUp(expired, (_, left) => [left, true]);
        }),
    };
  }

  /** Of every request that an agent runs, and every record that it keeps. */
  const openLeaseIds = async () =>
    new Set(
      defect === hasty
        ? []
        : [...requests].filter(({ state }) => state !== "held").flatMap(({ hold }) => hold.leaseIds),
    );

  function startGateway(): void {
    const replica = { id: `replica-${++serial}` as ReplicaId, epoch: ++epochs };
    let gateway: Gateway | undefined;
    const metrics = createBillingMetrics(new Registry());
    const store = storeOf(() => gateway);
    const made = createBudgets({ store, replica, log, metrics, openLeaseIds, clock });
    gateway = { replica, budgets: made, isAlive: true, isTicking: false };
    gateways.push(gateway);
  }
  startGateway();
  startGateway();

  const one = <T>(of: readonly T[]): T | undefined => of[random.between(0, Math.max(0, of.length - 1))];
  const requestsIn = (state: Request["state"]) => [...requests].filter((request) => request.state === state);

  function ask(): string {
    const gateway = one(gateways) as Gateway;
    const account = random.pick(accounts);
    const hasToken = account === accounts[0] && random.between(0, 2) === 0;
    const full = BigInt(random.between(1, 400));
    const floor = BigInt(random.between(1, Number(full)));
    const id = `request-${++serial}` as RequestId;
    const spending = { hasAccountLimit: false, hasKeyLimit: false, token: hasToken ? token : null };
    const asked = { requestId: id, account, key, admittedAtMs: nowMs, spending, floor: nano(floor), full: nano(full) };
    const take = (hold: Hold) => {
      if (hold.amount < floor || hold.amount > full) wrong = `${id} holds ${hold.amount}, between ${floor} and ${full}`;
      // A hold that comes after its gateway's death is nobody's.
      if (gateway.isAlive) requests.add({ id, account, hold, gateway, state: "held", cost: 0n });
    };
    try {
      const held = gateway.budgets.hold(asked);
      if (held instanceof Promise) held.then(take, () => {});
      else take(held);
    } catch {
      // Refused at once.
    }
    return `${gateway.replica.id} holds ${full} for ${id} of ${account}${hasToken ? " by its token" : ""}`;
  }

  function start(): string {
    const request = one(requestsIn("held"));
    if (!request) return "nothing is held";
    if (nowMs >= request.hold.expiresAtMs || random.between(0, 4) === 0 || !request.gateway.isAlive) {
      // Its ticket has expired, or its client left before it was sent.
      request.hold.release();
      requests.delete(request);
      return `${request.id} never runs`;
    }
    request.state = "running";
    return `${request.id} runs`;
  }

  function finish(): string {
    const request = one(requestsIn("running"));
    if (!request) return "nothing runs";
    const { hold, gateway } = request;
    const isAbove = random.between(0, 19) === 0;
    request.cost = isAbove ? hold.amount + 50n : BigInt(random.between(0, Number(hold.amount)));
    request.state = "recorded";
    if (!gateway.isAlive) return `${request.id} ends at ${request.cost}, after its gateway`;
    if (random.between(0, 3) === 0) hold.awaitRecord();
    else hold.settle(nano(request.cost));
    return `${request.id} ends at ${request.cost} of ${hold.amount}`;
  }

  /** As the settlement does with the agent's record. */
  function settle(): string {
    const again = random.between(0, 9) === 0 ? one(settled) : undefined;
    const request = again ?? one(requestsIn("recorded"));
    if (!request) return "no record waits";
    const known = rows.get(request.id);
    if (!again) {
      requests.delete(request);
      settled.push(request);
    }
    const row = known ?? rowOf(request);
    const touched = [
      accountBudget(request.account),
      ...request.hold.leaseIds.map((id) => (leases.get(id) as LeaseInBooks).budgetId),
    ];
    const posted = post({
      rows: [
        {
          ...row,
          ...(known === undefined || defect === repeated ? { isNew: true, charge: nano(0n) } : { isNew: false }),
        },
      ],
      budgets: [...new Set(touched)].map((budgetId) => ({ budgetId, ...(budgets.get(budgetId) as BudgetInBooks) })),
      leases: request.hold.leaseIds.map((leaseId) => ({ leaseId, ...(leases.get(leaseId) as LeaseInBooks) })),
    });
    for (const { budgetId, spent, leased } of posted.budgets) {
      const budget = budgets.get(budgetId) as BudgetInBooks;
      budget.spent += spent;
      budget.leased += leased;
    }
    for (const { leaseId, settled: amount } of posted.leases) (leases.get(leaseId) as LeaseInBooks).settled += amount;
    rows.set(request.id, { ...row, ...posted.rows[0] });
    // A request that cost nothing keeps no money: its lease may be gone.
    if (posted.late > 0 && request.cost > 0n) wrong = `the lease of ${request.id} was returned before its record came`;
    if (posted.entries.some(({ lossReason }) => lossReason === "above_limit"))
      wrong = `${request.id} does not fit its limit`;
    if (again && posted.entries.length > 0) wrong = `${request.id} was posted twice`;
    return `the record of ${request.id} is settled${again ? " again" : ""}`;
  }

  const rowOf = ({ id, account, hold, cost }: Request): UsageRow => ({
    requestId: id,
    attempt: 1,
    admittedAtMs: nowMs,
    account,
    key,
    model: "model",
    leaseIds: hold.leaseIds,
    hold: hold.amount,
    inputTokens: 0,
    cachedInputTokens: 0,
    outputTokens: Number(cost),
    rates,
    priceVersion: 1n,
    discountId: null,
    cost: nano(cost),
    charge: nano(0n),
    isVoided: false,
    isNew: true,
    deliveredTokens: undefined,
  });

  function answer(): string {
    const at = random.between(0, Math.max(0, calls.length - 1));
    const [call] = calls.splice(at, 1);
    if (!call) return "no call is under way";
    const dice = random.between(0, 19);
    const who = `${call.name} of ${call.gateway?.replica.id}`;
    if (dice === 0) {
      call.fail();
      return `${who} does not arrive`;
    }
    const reply = call.run();
    if (dice === 1 || call.gateway?.isAlive === false) {
      call.fail();
      return `${who} loses its reply`;
    }
    reply();
    return who;
  }

  function tick(): string {
    const gateway = one(gateways.filter(({ isTicking }) => !isTicking));
    if (!gateway) return "all tick";
    gateway.isTicking = true;
    void gateway.budgets.tick().finally(() => {
      gateway.isTicking = false;
    });
    return `${gateway.replica.id} ticks`;
  }

  function kill(): string {
    const at = random.between(0, gateways.length - 1);
    const [dead] = gateways.splice(at, 1);
    if (dead) dead.isAlive = false;
    // Requests that no agent has yet are gone with it.
    for (const request of requests)
      if (request.gateway === dead && request.state === "held" && random.between(0, 1) === 0) requests.delete(request);
    startGateway();
    return `${dead?.replica.id} is killed`;
  }

  async function step(): Promise<string> {
    const did = act(random.between(0, 199));
    // What waits for a reply goes on.
    await new Promise(setImmediate);
    return did;
  }

  function act(dice: number): string {
    if (dice < 40) return ask();
    if (dice < 65) return start();
    if (dice < 90) return finish();
    if (dice < 115) return settle();
    if (dice < 165) return answer();
    if (dice < 180) return tick();
    if (dice === 180) return kill();
    const ms = random.pick([50, 200, 500, 2_000, 6_000, sliceTiming.ttlMs]);
    nowMs += ms;
    return `${ms} ms pass`;
  }

  function check(): string | undefined {
    if (wrong !== undefined) return wrong;
    const open = new Map<BudgetId, bigint>();
    for (const { budgetId, granted, settled: used, isOpen } of leases.values())
      if (isOpen) open.set(budgetId, (open.get(budgetId) ?? 0n) + granted - used);
    for (const [id, { limit, spent, leased }] of budgets) {
      if (limit !== null && spent + leased > limit) return `${id}: ${spent} spent and ${leased} leased of ${limit}`;
      if (leased !== (open.get(id) ?? 0n)) return `${id}: ${leased} leased, open leases have ${open.get(id)}`;
    }
    return undefined;
  }

  return { step, check };
}

export const money: Simulation = { name: "money", defects: [overspending, hasty, repeated], create };
