// Records of models: what their owners say of them, their versions, and their end.
import type { AccountId } from "../../proto/ids.ts";
import { ServiceError } from "../service-error.ts";
import { type MetaChange, type ModelPapers, noPapers } from "./model-meta.ts";
import type { ServedModel } from "./served-model.ts";
import type { ModelMetaStore, ModelVersion } from "./store.ts";

/** Seen by the caller, and another account's. */
export class ModelNotOwned extends ServiceError {
  readonly code = "not_model_owner";
  constructor() {
    super("Only the account that owns this model may change it. Use a key of that account.");
  }
}

export class ModelVersionUnknown extends ServiceError {
  readonly code = "model_version_not_found";
  constructor() {
    super("This model has no such version. `GET /models/{model_name}/versions` lists those it has; `ALL` means each.", {
      param: "version",
    });
  }
}

/** Who changes a model, from which address. */
export interface Editor {
  readonly account: AccountId;
  readonly isAdmin: boolean;
  readonly ip: string;
}

export interface ModelRecords {
  papers(model: ServedModel): Promise<ModelPapers>;
  /** The newest first. */
  versions(model: ServedModel): Promise<readonly ModelVersion[]>;
  /** Throws ModelNotOwned, as the next two do. */
  change(editor: Editor, model: ServedModel, change: MetaChange): Promise<void>;
  /** Whether every account may read its record. Hidden, it is no longer offered to other accounts either. */
  show(editor: Editor, model: ServedModel, isShown: boolean): Promise<void>;
  /** Ends its deployments: of one version, or of `ALL`. Throws also ModelVersionUnknown. */
  remove(editor: Editor, model: ServedModel, version: string): Promise<void>;
  /** Nano-USD per hour of one GPU, by type. */
  hourRates(): Promise<ReadonlyMap<string, bigint>>;
}

export interface RecordDeps {
  readonly store: ModelMetaStore;
  /** Ends those of that account and name; `version` undefined: every one. */
  readonly endDeployments: (account: AccountId, name: string, version: string | undefined) => Promise<void>;
  /** The next request to this replica sees what was written. */
  readonly refresh: () => Promise<void>;
}

export function createModelRecords({ store, endDeployments, refresh }: RecordDeps): ModelRecords {
  const asOwner = async (
    { account, isAdmin, ip }: Editor,
    { owner, isPublic, name }: ServedModel,
    write: (model: { account: AccountId; name: string }, act: { by: string; ip: string }) => Promise<void>,
  ): Promise<void> => {
    if (owner !== account && !(isAdmin && isPublic)) throw new ModelNotOwned();
    await write({ account: owner, name }, { by: account, ip });
    await refresh();
  };
  const versions = ({ owner, name, deployId }: ServedModel) => store.versions({ account: owner, name, deployId });
  return {
    papers: async ({ owner, name }) => (await store.papers({ account: owner, name })) ?? noPapers,
    versions,
    change: (editor, model, change) => asOwner(editor, model, (own, act) => store.change(own, change, act)),
    show: (editor, model, isShown) => asOwner(editor, model, (own, act) => store.show(own, isShown, act)),
    remove: (editor, model, version) =>
      asOwner(editor, model, async (own, act) => {
        const known = (await versions(model)).map((one) => one.version);
        if (version !== "ALL" && !known.includes(version)) throw new ModelVersionUnknown();
        await endDeployments(own.account, own.name, version === "ALL" ? undefined : version);
        // What was said of it goes with its last version.
        if (version === "ALL" || known.length === 1) await store.forget(own, act);
      }),
    hourRates: () => store.hourRates(),
  };
}
