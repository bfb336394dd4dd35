// Upstream providers: external servers that a third party runs and the operator pays, with prices and spending limits.
import { Gauge, type Registry } from "prom-client";
import type { ServerApi } from "../../proto/api-formats.ts";
import type { DeploymentId } from "../../proto/ids.ts";
import { type NanoUsd, nano, type ProviderRates, toUsd } from "../../proto/money.ts";
import type { Act } from "../act.ts";
import { invalid, notFound } from "../service-error.ts";
import { type Clock, systemClock } from "./clock.ts";

export interface ProviderTerms {
  readonly rates: ProviderRates;
  /** Nano-USD per UTC calendar month; null: no limit. */
  readonly monthLimit: NanoUsd | null;
  /** Nano-USD per UTC day; null: no limit. */
  readonly dayLimit: NanoUsd | null;
}

/** An external server, with the provider's cost in the present month and day. */
export interface ExternalProvider {
  readonly deployId: DeploymentId;
  readonly modelName: string;
  readonly url: string;
  /** Its API format. */
  readonly api: ServerApi;
  readonly status: string;
  /** Null: the operator pays nothing for it. */
  readonly terms: ProviderTerms | null;
  readonly monthSpent: NanoUsd;
  readonly daySpent: NanoUsd;
}

/** The operator and its address, for the audit log. */
type Editor = Pick<Act, "by" | "ip">;

/** Implemented by store/money/provider-store.ts. */
export interface ProviderStore {
  /** External servers that are not deleted, by name, the first `limit`; `only`: this one. */
  list(unixMs: number, limit: number, only?: DeploymentId): Promise<readonly ExternalProvider[]>;
  /** False: no such external server. */
  set(editor: Editor, server: DeploymentId, terms: ProviderTerms, unixMs: number): Promise<boolean>;
}

/** Maximum providers in a list and in the metrics. */
const maxListed = 500;

export type Providers = ReturnType<typeof createProviders>;

export function createProviders(deps: {
  readonly store: ProviderStore;
  readonly registry: Registry;
  /** Makes a change visible to the next request at this replica. */
  readonly refresh: () => Promise<void>;
  readonly clock?: Clock;
}) {
  const { store, refresh, registry } = deps;
  const clock = deps.clock ?? systemClock;
  /** As last read, for metrics. */
  let known: readonly ExternalProvider[] = [];
  const read = async () => {
    const found = await store.list(clock.unixMs(), maxListed + 1);
    known = found.slice(0, maxListed);
    return { servers: known, hasMore: found.length > maxListed };
  };
  const each = (note: (model: string, period: "month" | "day", spent: NanoUsd, limit: NanoUsd | null) => void) => {
    for (const { modelName, terms, monthSpent, daySpent } of known) {
      if (!terms) continue;
      note(modelName, "month", monthSpent, terms.monthLimit);
      note(modelName, "day", daySpent, terms.dayLimit);
    }
  };
  const labelNames = ["model", "period"] as const;
  new Gauge({
    name: "stoker_provider_spent_usd",
    help: "What the provider of an external server was paid in the present UTC month or day",
    labelNames,
    registers: [registry],
    collect() {
      this.reset();
      each((model, period, spent) => this.set({ model, period }, toUsd(spent)));
    },
  });
  new Gauge({
    name: "stoker_provider_limit_left_usd",
    help: "What is left of the provider's limit of the present UTC month or day; absent without a limit",
    labelNames,
    registers: [registry],
    collect() {
      this.reset();
      each((model, period, spent, limit) => {
        if (limit !== null) this.set({ model, period }, toUsd(nano(limit - spent)));
      });
    },
  });
  return {
    list: read,
    /** Reads again what the metrics show. */
    refresh: async () => void (await read()),
    /** Throws externalNotFound, and as checkTerms does. */
    async set(editor: Editor, server: DeploymentId, terms: ProviderTerms): Promise<ExternalProvider> {
      checkTerms(terms);
      if (!(await store.set(editor, server, terms, clock.unixMs()))) throw externalNotFound();
      await refresh();
      await read();
      const [found] = await store.list(clock.unixMs(), 1, server);
      if (!found) throw externalNotFound();
      return found;
    },
  };
}

/** Throws for a limit that no price could reach. */
export function checkTerms({ rates, monthLimit, dayLimit }: ProviderTerms): void {
  if ((monthLimit !== null || dayLimit !== null) && Object.values(rates).every((rate) => rate === 0n))
    throw invalid("costs_missing", "A limit requires at least one price above 0.", { param: "costs" });
}

const externalNotFound = () =>
  notFound("external_not_found", "External server not found. `GET /v1/admin/external` lists them.");
