// What the catalogue needs kept. Implemented by store/catalog-store.ts.
import type { AccountId, DeploymentId } from "../../proto/ids.ts";
import type { TokenRates } from "../../proto/money.ts";

export interface DeployedModel {
  readonly deployId: DeploymentId;
  readonly account: AccountId;
  readonly modelName: string;
  readonly servedName: string;
  readonly version: string;
  readonly task: string;
  readonly engine: "stoker" | "external";
  readonly status: string;
  readonly maxBatchSize: number;
  /** As an instance reported, or as asked for; 0 unknown. */
  readonly contextLength: number;
  readonly createdAtMs: number;
}

export interface OfferedModel {
  readonly name: string;
  readonly deployId: DeploymentId;
  readonly description: string;
  readonly rates: TokenRates;
  readonly priceVersion: number;
  readonly createdAtMs: number;
}

export interface Offer {
  readonly name: string;
  readonly deployId: DeploymentId;
  readonly description: string;
  readonly rates: TokenRates;
}

export interface CatalogStore {
  /** Deployments that are not deleted. */
  deployed(): Promise<readonly DeployedModel[]>;
  /** Models offered to every account, at the price that is effective now. */
  offered(): Promise<readonly OfferedModel[]>;
  /** Until the next price of a model takes effect, by the clock that `offered` reads; undefined: none is set. */
  untilNextPriceMs(): Promise<number | undefined>;
  /** Offers it, in a new price version if the rates are new ones. Undefined when there is no such deployment. */
  offer(offer: Offer): Promise<OfferedModel | undefined>;
}
