// Records of models: metadata, versions, and deletion.

import type { AccountId } from "../../proto/ids.ts";
import type { Act } from "../act.ts";
import { type ErrorFacts, invalid, notFound, unauthenticated } from "../service-error.ts";
import { type MetaChange, type ModelPapers, noPapers } from "./model-meta.ts";
import type { ServedModel } from "./served-model.ts";
import type { CatalogStore, ModelMetaStore, Offer, OfferedModel } from "./store.ts";

/** Visible to the caller, but owned by another account. */
export const modelNotOwned = () =>
  unauthenticated("not_model_owner", "Only the account that owns this model can change it. Use a key of that account.");

export const modelVersionUnknown = () =>
  notFound(
    "model_version_not_found",
    "Model version not found. `GET /models/{model_name}/versions` lists the versions; `ALL` means every version.",
    { param: "version" },
  );

/** The caller. */
export interface Editor {
  readonly account: AccountId;
  readonly isAdmin: boolean;
  readonly act: Act;
}

export interface RecordDeps {
  readonly store: ModelMetaStore;
  readonly offers: Pick<CatalogStore, "offer">;
  /** Ends deployments of that account and name; `version` undefined: all. */
  readonly endDeployments: (account: AccountId, name: string, version: string | undefined, act: Act) => Promise<void>;
  /** Makes the change visible to the next request at this replica. */
  readonly refresh: () => Promise<void>;
}

export function createModelRecords({ store, offers, endDeployments, refresh }: RecordDeps) {
  const asOwner = async (
    { account, isAdmin, act }: Editor,
    { owner, isPublic, name }: ServedModel,
    write: (model: { account: AccountId; name: string }, act: Act) => Promise<void>,
  ): Promise<void> => {
    if (owner !== account && !(isAdmin && isPublic)) throw modelNotOwned();
    await write({ account: owner, name }, act);
    await refresh();
  };
  const versions = ({ owner, name, deployId }: ServedModel) => store.versions({ account: owner, name, deployId });
  return {
    papers: async ({ owner, name }: ServedModel): Promise<ModelPapers> =>
      (await store.papers({ account: owner, name })) ?? noPapers,
    /** The newest first. */
    versions,
    /** Throws modelNotOwned, as the next two do. */
    change: (editor: Editor, model: ServedModel, change: MetaChange): Promise<void> =>
      asOwner(editor, model, (own, act) => store.change(own, change, act)),
    /** Sets whether every account may read its record. A hidden model is no longer offered to other accounts. */
    show: (editor: Editor, model: ServedModel, isShown: boolean): Promise<void> =>
      asOwner(editor, model, (own, act) => store.show(own, isShown, act)),
    /** Ends its deployments: of one version, or of `ALL`. Also throws modelVersionUnknown. */
    remove: (editor: Editor, model: ServedModel, version: string): Promise<void> =>
      asOwner(editor, model, async (own, act) => {
        const known = (await versions(model)).map((one) => one.version);
        if (version !== "ALL" && !known.includes(version)) throw modelVersionUnknown();
        await endDeployments(own.account, own.name, version === "ALL" ? undefined : version, act);
        // Delete its metadata with its last version.
        if (version === "ALL" || known.length === 1) await store.forget(own, act);
      }),
    /** Nano-USD per hour of one GPU, by type. */
    hourRates: store.hourRates,
    /** Offers a deployment to every account. Throws offerRefused, offeredDeploymentUnknown. */
    async offer(offer: Offer): Promise<OfferedModel> {
      const offered = await offerModel(offers, offer);
      await refresh();
      return offered;
    },
  };
}

export type ModelRecords = ReturnType<typeof createModelRecords>;

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
