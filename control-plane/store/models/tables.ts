// Tables of models offered to every account and of model pages.

import type { Generated } from "kysely";
import type { AccountId, DeploymentId } from "../../../proto/ids.ts";
import type { AliasTarget } from "../../catalog/store.ts";
import type { DefaultTime, Json, Time } from "../core/columns.ts";

export interface ModelsTables {
  /** Names for one or several models. */
  modelAlias: {
    /** Null: an operator's, for every account. */
    accountId: AccountId | null;
    name: string;
    targets: Json<readonly AliasTarget[]>;
    fallbacks: Json<readonly string[]>;
    isSticky: boolean;
    updatedAt: DefaultTime;
  };
  /** Models offered to every account, served by a deployment of the operator. */
  publicModel: {
    modelName: string;
    deployId: DeploymentId;
    description: Generated<string>;
    createdAt: DefaultTime;
  };
  /** Metadata of an account's models, by name. */
  modelMeta: {
    accountId: AccountId;
    modelName: string;
    /** An offered model shows the offer's description instead. */
    description: Generated<string>;
    githubUrl: Generated<string>;
    paperUrl: Generated<string>;
    licenseUrl: Generated<string>;
    coverImage: Generated<string>;
    readme: Generated<string>;
    tags: Generated<string[]>;
    /** Every account may read its record; offers decide who may call it. */
    isPublic: Generated<boolean>;
    isFeatured: Generated<boolean>;
    deprecatedAt: Time | null;
    /** Time of its removal. */
    sunsetAt: Time | null;
    replacedBy: string | null;
    updatedAt: DefaultTime;
  };
}
