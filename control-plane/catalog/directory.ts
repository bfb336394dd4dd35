// Models in memory: public ones with their price, and each account's own deployments. Reloaded on change notifications;
// while the database is unavailable the last state stays.
import type { AccountId, DeploymentId } from "../../proto/ids.ts";
import { freeOfCharge } from "../../proto/money.ts";
import { adapterPercent, surchargedRates } from "../../proto/price-rules.ts";
import { type ModelAlias, modelsOf } from "./model-alias.ts";
import { type ModelAbout, noAbout } from "./model-meta.ts";
import type { ModelDirectory, ServedModel } from "./served-model.ts";
import type { CatalogStore, DeployedAdapter, DeployedModel, NotedModel, OfferedModel } from "./store.ts";

export interface Directory extends ModelDirectory {
  /** Throws when the database is unavailable. */
  refresh(): Promise<void>;
  readonly isLoaded: boolean;
  /** Time from the last reload to the next price change. Undefined: no later price is set. */
  readonly untilNextPriceMs: number | undefined;
  /** True for a model that this account may call under that name; null: that every account may call. */
  isCallable(name: string, account: AccountId | null): boolean;
  /** Deployments of all accounts by status, for metrics. */
  countByStatus(): ReadonlyMap<string, number>;
}

/** By name. */
type AliasTable = ReadonlyMap<string, ModelAlias>;

interface Tables {
  /** Null: aliases of operators. */
  readonly aliases: ReadonlyMap<AccountId | null, AliasTable>;
  readonly offered: ReadonlyMap<string, ServedModel>;
  readonly own: ReadonlyMap<AccountId, ReadonlyMap<string, ServedModel>>;
  readonly byId: ReadonlyMap<string, ServedModel>;
  /** Models with a public record, by name; the oldest when several accounts use the name. */
  readonly shown: ReadonlyMap<string, ServedModel>;
  readonly statuses: ReadonlyMap<string, number>;
}

const noTables: Pick<Tables, "aliases" | "own"> = { aliases: new Map(), own: new Map() };
const idPrefix = "deploy_id:";

/** `surcharge`: of an adapter over its base, in per cent. */
export function createDirectory(store: CatalogStore, surcharge = adapterPercent): Directory {
  let tables: Tables | undefined;
  let untilNextPriceMs: number | undefined;

  function named(name: string, caller: AccountId): ServedModel | undefined {
    const own = tables?.own.get(caller)?.get(name);
    const offered = tables?.offered.get(name);
    // The operator's calls to an offered model are priced like all others; the deployment itself is `deploy_id:ID`.
    return own && own.deployId !== offered?.deployId ? own : (offered ?? own);
  }

  function aliasOf(name: string, caller: AccountId): ModelAlias | undefined {
    const { aliases, own } = tables ?? noTables;
    if (aliases.size === 0) return undefined;
    // An operator's alias hides an offered model of its name, never an account's own.
    return aliases.get(caller)?.get(name) ?? (own.get(caller)?.has(name) ? undefined : aliases.get(null)?.get(name));
  }

  function resolve(name: string, caller: AccountId): ServedModel | undefined {
    const alias = aliasOf(name, caller);
    if (!alias) return resolveModel(name, caller);
    for (const model of modelsOf(alias, 0)) {
      const found = resolveModel(model, caller);
      if (found) return found;
    }
    return undefined;
  }

  function resolveModel(model: string, caller: AccountId): ServedModel | undefined {
    if (model.startsWith(idPrefix)) {
      const found = tables?.byId.get(model.slice(idPrefix.length));
      return found && (found.adapter?.account ?? found.owner) === caller ? found : undefined;
    }
    const plain = named(model, caller);
    const colon = plain ? -1 : model.lastIndexOf(":");
    if (colon < 1) return plain;
    const versioned = named(model.slice(0, colon), caller);
    return versioned?.version === model.slice(colon + 1) ? versioned : undefined;
  }

  return {
    get isLoaded() {
      return tables !== undefined;
    },
    get untilNextPriceMs() {
      return untilNextPriceMs;
    },
    async refresh() {
      // Before the prices: a price that takes effect in between is read twice, never missed.
      const untilNext = await store.untilNextPriceMs();
      // Offers first: otherwise an offer of a deployment that is not read yet would briefly vanish.
      const offered = await store.offered();
      const notes = await store.noted();
      // Before the deployments: an adapter needs a known deployment.
      const adapters = await store.adapters();
      const aliases = tabulateAliases(await store.aliases());
      tables = { ...tabulate(await store.deployed(), offered, notes, adapters, surcharge), aliases };
      untilNextPriceMs = untilNext;
    },
    resolve,
    resolveModel,
    aliasOf,
    aliases(caller) {
      const names = new Set([null, caller].flatMap((scope) => [...(tables?.aliases.get(scope)?.keys() ?? [])]));
      return [...names].toSorted().flatMap((name) => aliasOf(name, caller) ?? []);
    },
    isCallable: (name, account) =>
      (account === null ? tables?.offered.get(name) : resolveModel(name, account)) !== undefined,
    find: (model, caller) => resolveModel(model, caller) ?? tables?.shown.get(model),
    list(caller) {
      const names = new Set([...(tables?.offered.keys() ?? []), ...(tables?.own.get(caller)?.keys() ?? [])]);
      const all = [...names].sort().map((name) => named(name, caller));
      return all.filter(
        (model): model is ServedModel =>
          model !== undefined && model.status !== "failed" && model.adapter?.isServed !== false,
      );
    },
    countByStatus: () => tables?.statuses ?? new Map(),
  };
}

function tabulate(
  deployed: readonly DeployedModel[],
  offers: readonly OfferedModel[],
  notes: readonly NotedModel[],
  adapters: readonly DeployedAdapter[],
  surcharge: number,
): Omit<Tables, "aliases"> {
  const noted = new Map(notes.map((note) => [keyOf(note.account, note.name), note]));
  const byDeployment = new Map<DeploymentId, DeployedModel>(deployed.map((one) => [one.deployId, one]));
  const own = new Map<AccountId, Map<string, ServedModel>>();
  const byId = new Map<string, ServedModel>();
  const shown = new Map<string, ServedModel>();
  const statuses = new Map<string, number>();
  for (const one of deployed) {
    statuses.set(one.status, (statuses.get(one.status) ?? 0) + 1);
    const served = ownModel(one, noted.get(keyOf(one.account, one.modelName)));
    byId.set(one.deployId, served);
    const names = own.get(one.account) ?? new Map<string, ServedModel>();
    own.set(one.account, names);
    // A failed deployment loses its name to a new one.
    const other = names.get(one.modelName);
    if (!other || other.status === "failed") names.set(one.modelName, served);
    if (served.about?.isShown && !shown.has(served.name)) shown.set(served.name, served);
  }
  const offered = new Map<string, ServedModel>();
  for (const offer of offers) {
    const one = byDeployment.get(offer.deployId);
    if (one) offered.set(offer.name, publicModel(one, offer, noted.get(keyOf(one.account, offer.name))));
  }
  for (const one of adapters) {
    const base = one.base.kind === "offered" ? offered.get(one.base.name) : byId.get(one.base.deployId);
    if (!base) continue;
    const served = adaptedModel(one, base, surcharge);
    byId.set(one.id, served);
    const names = own.get(one.account) ?? new Map<string, ServedModel>();
    own.set(one.account, names);
    const other = names.get(one.name);
    if (!other || other.status === "failed") names.set(one.name, served);
  }
  return { offered, own, byId, shown, statuses };
}

function tabulateAliases(aliases: readonly ModelAlias[]): Tables["aliases"] {
  const byScope = Map.groupBy(aliases, ({ account }) => account);
  return new Map([...byScope].map(([scope, some]) => [scope, new Map(some.map((alias) => [alias.name, alias]))]));
}

function adaptedModel(one: DeployedAdapter, base: ServedModel, percent: number): ServedModel {
  return Object.freeze({
    ...base,
    name: one.name,
    // Unique on an instance with adapters of several accounts.
    servedName: one.id,
    version: one.revision,
    description: one.description,
    rates: surchargedRates(base.rates, percent),
    createdAtMs: one.createdAtMs,
    status: one.isFailed ? "failed" : base.status,
    about: goneWith(base.about),
    takesAdapters: false,
    adapter: { id: one.id, account: one.account, baseName: base.name, isServed: one.isServed },
  });
}

/** An adapter has no description of its own and ends with its base, without the base's replacement. */
const goneWith = ({ deprecatedAtMs, sunsetAtMs }: ModelAbout = noAbout): ModelAbout =>
  Object.freeze({ ...noAbout, deprecatedAtMs, sunsetAtMs });

const keyOf = (account: AccountId, name: string) => `${account} ${name}`;

function ownModel(one: DeployedModel, note: NotedModel | undefined): ServedModel {
  return Object.freeze({
    name: one.modelName,
    deployId: one.deployId,
    servedName: one.servedName,
    owner: one.account,
    isPublic: false,
    version: one.version,
    task: one.task,
    description: note?.description ?? "",
    contextLength: one.contextLength,
    maxBatchSize: one.maxBatchSize,
    // A dedicated deployment is paid by GPU time, not by tokens.
    rates: freeOfCharge,
    priceVersion: 0,
    createdAtMs: one.createdAtMs,
    status: one.status,
    engine: one.engine,
    takesAdapters: one.takesAdapters,
    takesPriority: one.takesPriority,
    isExternalServer: one.isExternalServer,
    api: one.api,
    provider: one.provider,
    about: aboutOf(note),
    gpus: one.gpus,
    quantization: quantizationOf(one.weightsFile),
  });
}

function aboutOf(note: NotedModel | undefined): ModelAbout {
  if (!note) return noAbout;
  const { account: _, name: __, description: ___, ...about } = note;
  return Object.freeze(about);
}

function publicModel(one: DeployedModel, offer: OfferedModel, note: NotedModel | undefined): ServedModel {
  return Object.freeze({
    ...ownModel(one, note),
    name: offer.name,
    isPublic: true,
    description: offer.description,
    rates: offer.rates,
    priceVersion: offer.priceVersion,
    tierPercents: offer.tierPercents,
    createdAtMs: offer.createdAtMs,
  });
}

const quantizationForms = /(?:^|[-_.])(I?Q\d(?:_[A-Z0-9]+)*|BF16|F16|FP16|F32|FP32|FP8|INT8|INT4|MXFP4)(?=[-_.]|$)/i;

/** Reads it from the file name: `SmolLM2-135M-Instruct.Q4_1.gguf` has Q4_1. */
const quantizationOf = (file: string | undefined): string | undefined =>
  quantizationForms.exec(file ?? "")?.[1]?.toUpperCase();
