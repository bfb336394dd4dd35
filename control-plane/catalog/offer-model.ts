import { type ErrorFacts, invalid, notFound } from "../service-error.ts";
import type { CatalogStore, Offer, OfferedModel } from "./store.ts";

export const offerRefused = (message: string, facts?: ErrorFacts) => invalid("invalid_offer", message, facts);

export const offeredDeploymentUnknown = () =>
  notFound("deployment_not_found", "Deployment not found. `GET /deploy/list` lists yours.", {
    param: "deploy_id",
  });

const nameForm = /^[A-Za-z0-9][\w.-]{0,95}(\/[A-Za-z0-9][\w.-]{0,127})?$/;

/** Offers a deployment to every account. Rates are nano-USD per million tokens; price versions are never changed. */
export async function offerModel(store: Pick<CatalogStore, "offer">, offer: Offer): Promise<OfferedModel> {
  if (!nameForm.test(offer.name))
    throw offerRefused(
      "The model name must have the form owner/name, with letters, digits, dots, dashes and underscores.",
      {
        param: "name",
      },
    );
  const { input, cachedInput, output } = offer.rates;
  if (input < 0n || cachedInput < 0n || output < 0n)
    throw offerRefused("Prices must not be negative.", { param: "pricing" });
  const offered = await store.offer(offer);
  if (!offered) throw offeredDeploymentUnknown();
  return offered;
}
