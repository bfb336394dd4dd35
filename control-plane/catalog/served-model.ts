import type { ServerApi } from "../../proto/api-formats.ts";
import type { AccountId, AdapterId, DeploymentId } from "../../proto/ids.ts";
import type { ProviderRates, TokenRates } from "../../proto/money.ts";
import type { ModelAlias } from "./model-alias.ts";
import type { ModelAbout } from "./model-meta.ts";

/** A model as one caller sees it: its deployment and price. Frozen. */
export interface ServedModel {
  /** The public name, as records and metrics show it. */
  readonly name: string;
  readonly deployId: DeploymentId;
  /** Model name at the engine, which the request body must carry. */
  readonly servedName: string;
  readonly owner: AccountId;
  /** Offered to every account and priced by tokens; otherwise the owner's deployment. */
  readonly isPublic: boolean;
  readonly version: string;
  readonly task: string;
  readonly description: string;
  /** Context length in tokens, input and output; 0 until an instance reports it. */
  readonly contextLength: number;
  readonly maxBatchSize: number;
  readonly rates: TokenRates;
  readonly priceVersion: number;
  /** Prices of the other tiers, in per cent of `rates`; undefined: as `rates`. */
  readonly tierPercents?: { readonly priority: number; readonly flex: number } | undefined;
  /** Its engine orders requests by the field `priority`. */
  readonly takesPriority?: boolean | undefined;
  readonly createdAtMs: number;
  /** Deployment status, reported to a caller when no instance is ready. */
  readonly status: string;
  /**
   * Our own runtime reads unknown body keys strictly and always sends usage; an external engine, and one from elsewhere that
   * we start, gets only known keys.
   */
  readonly engine: "stoker" | "external";
  /** Owner's metadata; undefined: none. */
  readonly about?: ModelAbout | undefined;
  /** GPUs of an instance; undefined: none. */
  readonly gpus?: { readonly type: string; readonly count: number } | undefined;
  /** Quantization from the file name, such as Q4_1; undefined: not in the name. */
  readonly quantization?: string | undefined;
  /** True when it supports LoRA adapters. */
  readonly takesAdapters: boolean;
  /** True for a server that Stoker did not start (`/v1/admin/external`). */
  readonly isExternalServer?: boolean | undefined;
  /** API format of that server; default: openai. */
  readonly api?: ServerApi | undefined;
  /** Rates paid to its provider; undefined: none. */
  readonly provider?: ModelProvider | undefined;
  /** Set for an adapter: everything but name, price and engine name comes from its base. */
  readonly adapter?: ServedAdapter;
}

export interface ModelProvider {
  readonly rates: ProviderRates;
  readonly hasMonthLimit: boolean;
  readonly hasDayLimit: boolean;
}

export interface ServedAdapter {
  readonly id: AdapterId;
  /** Owner of the adapter; `owner` owns the instances. */
  readonly account: AccountId;
  readonly baseName: string;
  /** An instance has served it, so it is listed. */
  readonly isServed: boolean;
}

/** Models in memory, kept current by change notifications: no database call. */
export interface ModelDirectory {
  /** Resolves `NAME`, `NAME:VERSION` or `deploy_id:ID`, or the first model of an alias; undefined: unknown to this caller. */
  resolve(model: string, caller: AccountId): ServedModel | undefined;
  /** As `resolve`, without aliases. */
  resolveModel(model: string, caller: AccountId): ServedModel | undefined;
  /** Undefined: the name is no alias for this caller. */
  aliasOf(name: string, caller: AccountId): ModelAlias | undefined;
  /** Aliases that the caller may use, by name. */
  aliases(caller: AccountId): readonly ModelAlias[];
  /** As `resolveModel`, and also models with a public record: for reading, never for calling. */
  find(model: string, caller: AccountId): ServedModel | undefined;
  /** Public models and the caller's own, by name. */
  list(caller: AccountId): readonly ServedModel[];
}
