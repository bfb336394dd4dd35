// The operator's catalogue of agent instances: a file of types, each an image with a port, a volume and plans.
import { readFileSync } from "node:fs";
import { nano } from "../../proto/money.ts";
import type { AgentPlan, AgentType } from "./store.ts";

export interface AgentCatalog {
  readonly types: ReadonlyMap<string, AgentType>;
}

export const emptyCatalog: AgentCatalog = { types: new Map() };

/** Subject of a plan's hourly price in the price book. */
export function priceSubject(type: string, plan: string): string {
  return `agent:${type}/${plan}`;
}

const idForm = /^[a-z0-9][a-z0-9-]{0,31}$/;
const imageForm = /^[a-z0-9][\w./:@-]{0,254}$/;
const gib = 1024 ** 3;
const nanoPerUsd = 1e9;

/** Calls `problem` with everything that makes the catalogue unusable, with its place. */
export function readAgentCatalog(given: unknown, problem: (sentence: string) => void): AgentCatalog {
  const types = new Map<string, AgentType>();
  const listed = objectOf(given)["types"];
  if (!Array.isArray(listed)) problem('the catalogue of agent instances must be {"types": [...]}');
  else
    for (const [index, one] of listed.entries()) {
      const say = (what: string) => problem(`types[${index}] of the catalogue of agent instances: ${what}`);
      const type = typeOf(objectOf(one), say);
      if (types.has(type.id)) say(`duplicate id ${type.id}`);
      types.set(type.id, type);
    }
  return { types };
}

function typeOf(given: Record<string, unknown>, say: (what: string) => void): AgentType {
  const text = (key: string, form?: RegExp): string => {
    const value = given[key];
    if (typeof value === "string" && value !== "" && (form?.test(value) ?? value.length <= 128)) return value;
    say(`${key} is missing or malformed`);
    return "";
  };
  const port = given["port"];
  if (!isPort(port)) say("port must be from 1 to 65535");
  // Without an explicit port the dashboard is on the program's port.
  const dashboard = given["dashboard_port"] ?? (given["has_dashboard"] === true ? port : null);
  if (dashboard !== null && !isPort(dashboard)) say("dashboard_port must be from 1 to 65535 or null");
  const update = given["self_service_update_command"] ?? null;
  if (update !== null && typeof update !== "string") say("self_service_update_command must be a string or null");
  const backups = objectOf(given["backups"] ?? {});
  const number = (key: string, fallback: number, max: number): number => {
    const value = backups[key] ?? fallback;
    if (typeof value === "number" && value >= 0 && value <= max) return value;
    say(`backups.${key} must be from 0 to ${max}`);
    return fallback;
  };
  const plans = Array.isArray(given["plans"]) ? given["plans"].map((plan) => planOf(objectOf(plan), say)) : [];
  if (plans.length === 0) say("plans must list at least one plan");
  return {
    id: text("id", idForm),
    prettyName: text("pretty_name"),
    version: text("version"),
    image: text("image", imageForm),
    port: Number(port),
    volumePath: text("volume_path", /^\/[\w/.-]+$/),
    dashboardPort: dashboard === null ? null : Number(dashboard),
    updateCommand: update as string | null,
    backupEveryMs: number("every_hours", 24, 8_760) * 3_600_000,
    keepBackups: Math.round(number("keep", 7, 1_000)),
    plans,
  };
}

function planOf(given: Record<string, unknown>, say: (what: string) => void): AgentPlan {
  const number = (key: string, max: number, fallback?: number): number => {
    const value = given[key] ?? fallback;
    if (typeof value === "number" && Number.isFinite(value) && value >= 0 && value <= max) return value;
    say(`plans: ${key} must be a number from 0 to ${max}`);
    return 0;
  };
  const id = given["id"];
  if (typeof id !== "string" || !idForm.test(id)) say("plans: id is missing or malformed");
  return {
    id: String(id),
    vcpu: number("vcpu", 1_024),
    ramBytes: Math.round(number("ram_gb", 65_536) * gib),
    hourRate: nano(BigInt(Math.round(number("price_per_hour", 1e6) * nanoPerUsd))),
    monthlyEgressGb: number("monthly_egress_gb", 1e9, 0),
  };
}

const isPort = (value: unknown): boolean => Number.isInteger(value) && Number(value) >= 1 && Number(value) <= 65_535;
const objectOf = (value: unknown): Record<string, unknown> =>
  typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};

/** Throws with every problem of the file. Without a file the catalogue is empty. */
export function readCatalogFile(file: string | undefined): AgentCatalog {
  if (file === undefined) return emptyCatalog;
  const problems: string[] = [];
  const catalog = readAgentCatalog(JSON.parse(readFileSync(file, "utf8")), (sentence) => problems.push(sentence));
  if (problems.length > 0) throw new Error(`${file}: ${problems.join("; ")}`);
  return catalog;
}

/** Implemented by billing/price-book.ts. */
interface PricePort {
  list(filter: {
    readonly kind: "container";
    readonly subject: string;
  }): Promise<readonly { readonly isCurrent: boolean; readonly rates: { readonly hour: bigint } }[]>;
  set(price: {
    readonly kind: "container";
    readonly subject: string;
    readonly rates: { readonly hour: bigint };
  }): Promise<unknown>;
}

/** Sets the price of every plan whose current price differs from the catalogue's. */
export async function setCatalogPrices(catalog: AgentCatalog, prices: PricePort): Promise<void> {
  for (const type of catalog.types.values())
    for (const plan of type.plans) {
      const subject = priceSubject(type.id, plan.id);
      const current = (await prices.list({ kind: "container", subject })).find((one) => one.isCurrent);
      if ((current?.rates.hour ?? 0n) !== plan.hourRate)
        await prices.set({ kind: "container", subject, rates: { hour: plan.hourRate } });
    }
}
