// Hosts and their GPUs as the fleet's pages show them: filters, free capacity, and the cells of the heat map.
import { capacityOf, type Gpu, gpuTypeOf, healthOf, type Node } from "./nodes.ts";

/** Filters in the address; empty: all. */
export interface FleetFilter {
  readonly type: string;
  readonly pool: string;
  /** Status of the host. */
  readonly status: string;
  readonly health: string;
  /** uid of an account that uses the GPU. */
  readonly customer: string;
}

export const gpuStates = ["free", "used", "cordoned", "faulty"] as const;
export type GpuState = (typeof gpuStates)[number];

export function gpuStateOf(gpu: Gpu): GpuState {
  if (gpu.cordoned_at !== null) return "cordoned";
  if (!gpu.is_healthy) return "faulty";
  return gpu.is_claimed ? "used" : "free";
}

/** One word: why a host gets no instances, or `ready`. */
export function statusOf({ state, operation }: Pick<Node, "state" | "operation">): string {
  if (state === "unreachable" || state === "lost" || operation === null) return state;
  return operation.kind === "drain" ? "draining" : "cordoned";
}

export interface HostGpus {
  readonly node: Node;
  /** Those that pass the filter. */
  readonly gpus: readonly Gpu[];
}

/** Hosts with what the filter lets through, by name. Without GPUs of its own a host passes if no filter of GPUs is set. */
export function filtered(nodes: readonly Node[], filter: FleetFilter): readonly HostGpus[] {
  const { type, pool, status, health, customer } = filter;
  return nodes
    .filter((node) => (pool === "" || node.pool === pool) && (status === "" || statusOf(node) === status))
    .map((node) => ({
      node,
      gpus: node.gpus.filter(
        (gpu) =>
          (type === "" || gpuTypeOf(gpu) === type) &&
          (health === "" || gpuStateOf(gpu) === health) &&
          (customer === "" || gpu.account?.uid === customer),
      ),
    }))
    .filter(({ gpus }) => gpus.length > 0 || (type === "" && health === "" && customer === ""))
    .sort((a, b) => collator.compare(a.node.name, b.node.name));
}

const collator = new Intl.Collator("en", { numeric: true });

export interface FreeCapacity {
  readonly type: string;
  readonly free: number;
  readonly all: number;
  /** Maximum free GPUs on one host: the largest model that fits. */
  readonly largest: number;
}

export const freeCapacity = (nodes: readonly Node[]): readonly FreeCapacity[] =>
  capacityOf(nodes).map((one) => ({
    ...one,
    largest: Math.max(...nodes.map((node) => capacityOf([node]).find(({ type }) => type === one.type)?.free ?? 0)),
  }));

export const shades = ["use", "memory", "health", "customer"] as const;
export type Shade = (typeof shades)[number];

export const isShade = (text: string): text is Shade => (shades as readonly string[]).includes(text);

/** Look of a GPU: the colour by its name in heat-map.css, and a sign that says the same. */
export interface Cell {
  readonly tone: string;
  readonly sign: string;
}

export interface CustomerMark extends Cell {
  readonly uid: string;
  readonly email: string;
  readonly gpus: number;
}

const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const customerTones = 10;

/** A letter and a colour for each customer, the largest first. Customers beyond the letters share `+`. */
export function customersOf(nodes: readonly Node[]): readonly CustomerMark[] {
  const found = new Map<string, { email: string; gpus: number }>();
  for (const node of nodes)
    for (const { account } of node.gpus) {
      if (account === null) continue;
      const own = found.get(account.uid) ?? { email: account.email, gpus: 0 };
      found.set(account.uid, { ...own, gpus: own.gpus + 1 });
    }
  return [...found]
    .sort(([, a], [, b]) => b.gpus - a.gpus || (a.email < b.email ? -1 : 1))
    .map(([uid, own], rank) => ({
      uid,
      ...own,
      sign: letters[rank] ?? "+",
      tone: rank < letters.length ? `customer-${rank % customerTones}` : "customer-other",
    }));
}

const noFigure: Cell = { tone: "none", sign: "·" };

/** `customers`: of the whole fleet, so that a filter changes no colour. */
export function cellOf(gpu: Gpu, shade: Shade, customers: ReadonlyMap<string, CustomerMark>): Cell {
  switch (shade) {
    case "use":
      return gpu.utilization_ratio === null ? stateCell(gpu) : heat(gpu.utilization_ratio);
    case "memory":
      if (gpu.memory_used_bytes === null) return stateCell(gpu);
      return heat(gpu.memory_used_bytes / Math.max(1, gpu.memory_bytes));
    case "health":
      return stateCell(gpu);
    case "customer":
      if (gpu.account) return customers.get(gpu.account.uid) ?? noFigure;
      return gpu.is_claimed ? { tone: "shared", sign: "*" } : { tone: "none", sign: "○" };
  }
}

const stateCell = (gpu: Gpu): Cell => ({ tone: gpuStateOf(gpu), sign: healthOf(gpu).sign });

/** Tens of a percentage, 9 from 90 per cent on; five colours. */
function heat(ratio: number): Cell {
  const tens = Math.min(9, Math.max(0, Math.floor(ratio * 10)));
  return { tone: `heat-${Math.floor(tens / 2)}`, sign: `${tens}` };
}

export interface FleetTotals {
  readonly hosts: number;
  readonly ready: number;
  readonly gpus: number;
  readonly byState: Readonly<Record<GpuState, number>>;
  readonly running: number;
  readonly waiting: number;
  readonly tokensPerSecond: number;
}

export function totalsOf(nodes: readonly Node[]): FleetTotals {
  const gpus = nodes.flatMap((node) => node.gpus);
  const instances = nodes.flatMap((node) => node.instances);
  const sum = (of: (one: Node["instances"][number]) => number) => instances.reduce((all, one) => all + of(one), 0);
  const states = gpus.map(gpuStateOf);
  const count = (state: GpuState) => states.filter((one) => one === state).length;
  return {
    hosts: nodes.length,
    ready: nodes.filter((node) => statusOf(node) === "ready").length,
    gpus: gpus.length,
    byState: { free: count("free"), used: count("used"), cordoned: count("cordoned"), faulty: count("faulty") },
    running: sum((one) => one.in_flight),
    waiting: sum((one) => one.waiting),
    tokensPerSecond: sum((one) => one.tokens_per_second),
  };
}

/** Operator's pages of what runs there. */
export const pathOfDeployment = (id: string): string => `/all-deployments/${encodeURIComponent(id)}`;
export const pathOfAccount = (uid: string): string => `/accounts/${encodeURIComponent(uid)}`;
export const pathOfNode = (id: string): string => `/nodes/${encodeURIComponent(id)}`;
