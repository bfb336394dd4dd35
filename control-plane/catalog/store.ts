// Storage of the catalogue. Implemented by store/catalog-store.ts.

import type { ServerApi } from "../../proto/api-formats.ts";
import type { AccountId, AdapterId, DeploymentId } from "../../proto/ids.ts";
import type { TokenRates } from "../../proto/money.ts";
import type { Act } from "../act.ts";
import type { AliasEditor, ModelAlias } from "./model-alias.ts";
import type { MetaChange, ModelAbout, ModelPapers } from "./model-meta.ts";

import type { ModelProvider } from "./served-model.ts";

export type { AliasTarget } from "./model-alias.ts";
export type { MetaChange } from "./model-meta.ts";
export type { ModelProvider } from "./served-model.ts";

export interface DeployedModel {
  readonly deployId: DeploymentId;
  readonly account: AccountId;
  readonly modelName: string;
  readonly servedName: string;
  readonly version: string;
  readonly task: string;
  readonly engine: "stoker" | "external";
  /** Its instances support LoRA adapters. */
  readonly takesAdapters: boolean;
  /** Its engine orders requests by the field `priority`. */
  readonly takesPriority?: boolean;
  readonly status: string;
  readonly maxBatchSize: number;
  /** As reported by an instance, or as requested; 0: unknown. */
  readonly contextLength: number;
  readonly createdAtMs: number;
  readonly gpus?: { readonly type: string; readonly count: number };
  readonly isExternalServer?: boolean;
  readonly api?: ServerApi;
  /** Rates paid to the provider of an external server. */
  readonly provider?: ModelProvider;
  /** File name of the weights, for the quantization. */
  readonly weightsFile?: string;
}

/** Keyed by the account and the model's name. */
export interface NotedModel extends ModelAbout {
  readonly account: AccountId;
  readonly name: string;
  readonly description: string;
}

/** A model of an account, by its name. */
export interface OwnModel {
  readonly account: AccountId;
  readonly name: string;
}

export interface ModelVersion {
  readonly version: string;
  readonly uploadedAtMs: number;
}

export interface OfferedModel {
  readonly name: string;
  readonly deployId: DeploymentId;
  readonly description: string;
  readonly rates: TokenRates;
  readonly priceVersion: number;
  /** Prices of the other tiers, in per cent of `rates`. Absent: as `rates`. */
  readonly tierPercents?: { readonly priority: number; readonly flex: number };
  readonly createdAtMs: number;
}

/** A LoRA adapter that has not ended. */
export interface DeployedAdapter {
  readonly id: AdapterId;
  readonly account: AccountId;
  readonly name: string;
  readonly revision: string;
  readonly description: string;
  /** Its base: an offered model by name, or a deployment. */
  readonly base:
    | { readonly kind: "offered"; readonly name: string }
    | { readonly kind: "own"; readonly deployId: DeploymentId };
  readonly isFailed: boolean;
  /** An instance has served it. */
  readonly isServed: boolean;
  readonly createdAtMs: number;
}

export interface Offer {
  readonly name: string;
  readonly deployId: DeploymentId;
  readonly description: string;
  readonly rates: TokenRates;
}

/** Implemented by store/models/alias-store.ts. */
export interface AliasStore {
  /** The account's own and those of operators, by name. */
  list(account: AccountId): Promise<readonly ModelAlias[]>;
  find(scope: AccountId | null, name: string): Promise<ModelAlias | undefined>;
  /** Undefined: the scope already has `maxCount` others. */
  put(
    editor: AliasEditor,
    alias: Omit<ModelAlias, "account" | "updatedAtMs">,
    maxCount: number,
  ): Promise<ModelAlias | undefined>;
  /** False: no such alias. */
  remove(editor: AliasEditor, name: string): Promise<boolean>;
}

export interface CatalogStore {
  /** Metadata of all models. */
  noted(): Promise<readonly NotedModel[]>;
  /** Deployments that are not deleted. */
  deployed(): Promise<readonly DeployedModel[]>;
  adapters(): Promise<readonly DeployedAdapter[]>;
  /** Aliases of all accounts. */
  aliases(): Promise<readonly ModelAlias[]>;
  /** Models offered to every account, at the price that is effective now. */
  offered(): Promise<readonly OfferedModel[]>;
  /** Time until the next price takes effect, by the clock that `offered` reads; undefined: none is set. */
  untilNextPriceMs(): Promise<number | undefined>;
  /** Offers the deployment, in a new price version if the rates changed. Undefined: no such deployment. */
  offer(offer: Offer): Promise<OfferedModel | undefined>;
}

/** Implemented by store/model-meta-store.ts. */
export interface ModelMetaStore {
  /** Undefined: no metadata. */
  papers(model: OwnModel): Promise<ModelPapers | undefined>;
  /** Versions of deployments that are not deleted, newest first. */
  versions(model: OwnModel & { readonly deployId: DeploymentId }): Promise<readonly ModelVersion[]>;
  /** Writes the given fields; for an offered model also the offer's description. */
  change(model: OwnModel, change: MetaChange, act: Act): Promise<void>;
  /** A hidden model is no longer offered to other accounts. */
  show(model: OwnModel, isShown: boolean, act: Act): Promise<void>;
  /** Deletes the account's offers of that name, and the metadata. */
  forget(model: OwnModel, act: Act): Promise<void>;
  /** Nano-USD per hour of one GPU, by type, at the price that is effective now. */
  hourRates(): Promise<ReadonlyMap<string, bigint>>;
}
