// What the catalogue needs kept. Implemented by store/catalog-store.ts.
import type { AccountId, AdapterId, DeploymentId } from "../../proto/ids.ts";
import type { TokenRates } from "../../proto/money.ts";
import type { MetaChange, ModelAbout, ModelPapers } from "./model-meta.ts";

export type { MetaChange } from "./model-meta.ts";

export interface DeployedModel {
  readonly deployId: DeploymentId;
  readonly account: AccountId;
  readonly modelName: string;
  readonly servedName: string;
  readonly version: string;
  readonly task: string;
  readonly engine: "stoker" | "external";
  /** Its instances take LoRA adapters while they run. */
  readonly takesAdapters: boolean;
  readonly status: string;
  readonly maxBatchSize: number;
  /** As an instance reported, or as asked for; 0 unknown. */
  readonly contextLength: number;
  readonly createdAtMs: number;
  readonly gpus?: { readonly type: string; readonly count: number };
  /** Of the weights, as far as it says how they are stored. */
  readonly weightsFile?: string;
}

/** By the account and the name that the model is called by. */
export interface NotedModel extends ModelAbout {
  readonly account: AccountId;
  readonly name: string;
  readonly description: string;
}

/** A model of an account by the name it is called by. */
export interface OwnModel {
  readonly account: AccountId;
  readonly name: string;
}

/** Who acts on a model, from where: for the audit log. */
export interface ModelAct {
  readonly by: string;
  readonly ip: string;
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
  readonly createdAtMs: number;
}

/** A LoRA adapter that did not end. */
export interface DeployedAdapter {
  readonly id: AdapterId;
  readonly account: AccountId;
  readonly name: string;
  readonly revision: string;
  readonly description: string;
  /** Of the base: a model that is offered to every account, by its name, or else a deployment. */
  readonly base:
    | { readonly kind: "offered"; readonly name: string }
    | { readonly kind: "own"; readonly deployId: DeploymentId };
  readonly isFailed: boolean;
  /** Some instance has served it. */
  readonly isServed: boolean;
  readonly createdAtMs: number;
}

export interface Offer {
  readonly name: string;
  readonly deployId: DeploymentId;
  readonly description: string;
  readonly rates: TokenRates;
}

export interface CatalogStore {
  /** What owners say of their models. */
  noted(): Promise<readonly NotedModel[]>;
  /** Deployments that are not deleted. */
  deployed(): Promise<readonly DeployedModel[]>;
  adapters(): Promise<readonly DeployedAdapter[]>;
  /** Models offered to every account, at the price that is effective now. */
  offered(): Promise<readonly OfferedModel[]>;
  /** Until the next price of a model takes effect, by the clock that `offered` reads; undefined: none is set. */
  untilNextPriceMs(): Promise<number | undefined>;
  /** Offers it, in a new price version if the rates are new ones. Undefined when there is no such deployment. */
  offer(offer: Offer): Promise<OfferedModel | undefined>;
}

/** Implemented by store/model-meta-store.ts. */
export interface ModelMetaStore {
  /** Undefined: nothing was said of it. */
  papers(model: OwnModel): Promise<ModelPapers | undefined>;
  /** Of deployments that are not deleted, the newest first. */
  versions(model: OwnModel & { readonly deployId: DeploymentId }): Promise<readonly ModelVersion[]>;
  /** Writes what is given; of a model that is offered the offer's description too. */
  change(model: OwnModel, change: MetaChange, act: ModelAct): Promise<void>;
  /** Hidden, it is no longer offered to other accounts either. */
  show(model: OwnModel, isShown: boolean, act: ModelAct): Promise<void>;
  /** Takes the offers of that name, if their deployment is the account's, and what was said of it. */
  forget(model: OwnModel, act: ModelAct): Promise<void>;
  /** Nano-USD per hour of one GPU, by type, at the price that is effective now. */
  hourRates(): Promise<ReadonlyMap<string, bigint>>;
}
