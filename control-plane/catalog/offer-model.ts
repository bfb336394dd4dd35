import { ServiceError } from "../service-error.ts";
import type { CatalogStore, Offer, OfferedModel } from "./store.ts";

export class OfferRefused extends ServiceError {
  readonly code = "invalid_offer";
}

export class OfferedDeploymentUnknown extends ServiceError {
  readonly code = "deployment_not_found";
  constructor() {
    super("There is no such deployment to offer. `GET /deploy/list` shows yours.", { param: "deploy_id" });
  }
}

const nameForm = /^[A-Za-z0-9][\w.-]{0,95}(\/[A-Za-z0-9][\w.-]{0,127})?$/;

/** Makes a deployment a model of every account. Rates are nano-USD per million tokens; price versions are never changed. */
export async function offerModel(store: Pick<CatalogStore, "offer">, offer: Offer): Promise<OfferedModel> {
  if (!nameForm.test(offer.name))
    throw new OfferRefused(
      "The name of a model is written owner/name, in letters, digits, dots, dashes and underscores.",
      {
        param: "name",
      },
    );
  const { input, cachedInput, output } = offer.rates;
  if (input < 0n || cachedInput < 0n || output < 0n)
    throw new OfferRefused("Prices are not negative.", { param: "pricing" });
  const offered = await store.offer(offer);
  if (!offered) throw new OfferedDeploymentUnknown();
  return offered;
}
