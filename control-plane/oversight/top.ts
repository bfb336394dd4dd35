// Models, customers and hosts by what they use now.
import type { AccountId, DeploymentId, HostId } from "../../proto/ids.ts";

/** Requests of about the last minute, of all control planes, and what was charged in the last hour. */
export interface Traffic {
  /** Model name, or account. */
  readonly label: string;
  /** Length of the time that requests and tokens are of. */
  readonly seconds: number;
  readonly requests: number;
  readonly errors: number;
  readonly outputTokens: number;
  /** Nano-USD. */
  readonly spend: bigint;
}

/** Instances of a deployment or account. */
export interface Holding {
  /** Deployment, or account. */
  readonly label: string;
  readonly gpus: number;
  /** Mean of the GPUs that report it. */
  readonly gpuUse: number | null;
  readonly running: number;
  readonly waiting: number;
}

export interface NamedDeployment {
  readonly id: DeploymentId;
  readonly kind: string;
  /** Its own name, and those under which it is offered. */
  readonly names: readonly string[];
  readonly owner: { readonly account: AccountId; readonly email: string };
}

export interface BusyHost {
  readonly id: HostId;
  readonly name: string;
  readonly gpusHeld: number;
  readonly gpuUse: number | null;
  readonly running: number;
  readonly waiting: number;
  readonly tokensPerSecond: number;
}

export interface TopStore {
  traffic(by: "model" | "account"): Promise<readonly Traffic[]>;
  holdings(by: "deployment" | "account"): Promise<readonly Holding[]>;
  /** Those that are not deleted, with one of the ids or names. */
  deployments(ids: readonly string[], names: readonly string[]): Promise<readonly NamedDeployment[]>;
  emails(accounts: readonly string[]): Promise<ReadonlyMap<string, string>>;
  /** Hosts with a recent report. */
  hosts(): Promise<readonly BusyHost[]>;
}

/** Null: not known of this kind. */
export interface TopRow {
  /** Deployment, account or host; null: a model without a deployment of its own, such as an adapter. */
  readonly id: string | null;
  readonly name: string;
  /** Kind of the deployment. */
  readonly kind: string | null;
  readonly owner: { readonly account: AccountId; readonly email: string } | null;
  readonly requestsPerSecond: number | null;
  readonly errorsPerSecond: number | null;
  readonly tokensPerSecond: number | null;
  readonly gpusHeld: number;
  readonly gpuUse: number | null;
  readonly running: number;
  readonly waiting: number;
  readonly spendLastHour: bigint | null;
}

export const topKinds = ["model", "customer", "deployment", "host"] as const;
export type TopKind = (typeof topKinds)[number];

const orders: Readonly<Record<string, (row: TopRow) => number>> = {
  requests: (row) => row.requestsPerSecond ?? row.running,
  errors: (row) => row.errorsPerSecond ?? 0,
  tokens: (row) => row.tokensPerSecond ?? 0,
  gpus: (row) => row.gpusHeld,
  gpu_use: (row) => row.gpuUse ?? -1,
  queue: (row) => row.waiting,
  spend: (row) => Number(row.spendLastHour ?? 0n),
};
export const topOrders = Object.keys(orders);

export function createTop({ store }: { readonly store: TopStore }) {
  /** Deployments that hold something or were called, and the traffic of models without one of their own. */
  async function deployments() {
    const [traffic, holdings] = await Promise.all([store.traffic("model"), store.holdings("deployment")]);
    const known = await store.deployments(
      holdings.map(({ label }) => label),
      traffic.map(({ label }) => label),
    );
    const byName = new Map(known.flatMap((one) => one.names.map((name) => [name, one] as const)));
    const byId = new Map(holdings.map((one) => [one.label, one]));
    const served = Map.groupBy(traffic, ({ label }) => byName.get(label)?.id);
    return {
      own: known.map((one) => ({ ...one, ...flow(served.get(one.id) ?? []), ...held(byId.get(one.id)) })),
      others: served.get(undefined) ?? [],
    };
  }

  const read: Readonly<Record<TopKind, () => Promise<readonly TopRow[]>>> = {
    async model() {
      const { own, others } = await deployments();
      return [
        ...own.map(({ names, ...one }) => ({ ...one, name: names.at(-1) ?? "" })),
        ...others.map((one) => ({ id: null, name: one.label, kind: null, owner: null, ...flow([one]), ...held() })),
      ];
    },

    async deployment() {
      return (await deployments()).own.map(({ names, ...one }) => ({ ...one, name: names[0] ?? "" }));
    },

    async customer() {
      const [traffic, holdings] = await Promise.all([store.traffic("account"), store.holdings("account")]);
      const flows = new Map(traffic.map((one) => [one.label, one]));
      const byId = new Map(holdings.map((one) => [one.label, one]));
      const accounts = [...new Set([...flows.keys(), ...byId.keys()])];
      const emails = await store.emails(accounts);
      return accounts.map((id) => {
        const own = flows.get(id);
        return {
          id,
          name: emails.get(id) ?? id,
          kind: null,
          owner: null,
          ...flow(own ? [own] : []),
          ...held(byId.get(id)),
        };
      });
    },

    async host() {
      return (await store.hosts()).map(({ tokensPerSecond, ...host }) => ({
        kind: null,
        owner: null,
        requestsPerSecond: null,
        errorsPerSecond: null,
        spendLastHour: null,
        ...host,
        tokensPerSecond,
      }));
    },
  };

  return {
    /** The rows with the most of `order`, then by name. */
    async read(by: TopKind, order: string, limit: number): Promise<readonly TopRow[]> {
      const figure = orders[order] as (row: TopRow) => number;
      const rows = await read[by]();
      return rows.toSorted((a, b) => figure(b) - figure(a) || (a.name < b.name ? -1 : 1)).slice(0, limit);
    },
  };
}

export type Top = ReturnType<typeof createTop>;

const held = ({ gpus = 0, gpuUse = null, running = 0, waiting = 0 }: Partial<Holding> = {}) => ({
  gpusHeld: gpus,
  gpuUse,
  running,
  waiting,
});

function flow(traffic: readonly Traffic[]) {
  const sum = (of: (one: Traffic) => number) => traffic.reduce((all, one) => all + of(one) / one.seconds, 0);
  return {
    requestsPerSecond: sum(({ requests }) => requests),
    errorsPerSecond: sum(({ errors }) => errors),
    tokensPerSecond: sum(({ outputTokens }) => outputTokens),
    spendLastHour: traffic.reduce((all, { spend }) => all + spend, 0n),
  };
}
