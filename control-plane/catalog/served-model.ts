import type { AccountId, AdapterId, DeploymentId } from "../../proto/ids.ts";
import type { TokenRates } from "../../proto/money.ts";
import type { ModelAbout } from "./model-meta.ts";

/** What a model name means to one caller: which deployment serves it and at what price. Frozen. */
export interface ServedModel {
  /** The public name, as records and metrics show it. */
  readonly name: string;
  readonly deployId: DeploymentId;
  /** Name the engine knows; the request body must carry it. */
  readonly servedName: string;
  readonly owner: AccountId;
  /** Offered to every account, priced by tokens; otherwise the owner's own deployment. */
  readonly isPublic: boolean;
  readonly version: string;
  readonly task: string;
  readonly description: string;
  /** Tokens, prompt and answer together; 0 when no instance has reported it yet. */
  readonly contextLength: number;
  readonly maxBatchSize: number;
  readonly rates: TokenRates;
  readonly priceVersion: number;
  readonly createdAtMs: number;
  /** deployed, updating, ... : what a caller is told when no instance is ready. */
  readonly status: string;
  /**
   * Our own runtime reads unknown body keys strictly and always sends usage; an external engine, and one from elsewhere that
   * we start, gets only known keys.
   */
  readonly engine: "stoker" | "external";
  /** What its owner says of it; absent: nothing. */
  readonly about?: ModelAbout | undefined;
  /** GPUs of an instance; absent: none. */
  readonly gpus?: { readonly type: string; readonly count: number } | undefined;
  /** Of its weights' names, such as Q4_1; absent: they do not say. */
  readonly quantization?: string | undefined;
  /** LoRA adapters can be put on it. */
  readonly takesAdapters: boolean;
  /** This is one: all else is its base's, but name, price and what the engine calls it. */
  readonly adapter?: ServedAdapter;
}

export interface ServedAdapter {
  readonly id: AdapterId;
  /** Whose it is; `owner` owns the instances. */
  readonly account: AccountId;
  readonly baseName: string;
  /** Some instance has served it: it is listed. */
  readonly isServed: boolean;
}

/** The models in memory, kept fresh by pushed changes: no database call. */
export interface ModelDirectory {
  /** `NAME`, `NAME:VERSION` or `deploy_id:ID`; undefined when unknown to this caller (another tenant's included). */
  resolve(model: string, caller: AccountId): ServedModel | undefined;
  /** As `resolve`, and beyond it models whose owner shows their record: for reading, never for calling. */
  find(model: string, caller: AccountId): ServedModel | undefined;
  /** Public models and the caller's own, by name. */
  list(caller: AccountId): readonly ServedModel[];
}
