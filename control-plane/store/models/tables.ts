// Tables of models offered to every account and of model pages.

import type { Generated } from "kysely";
import type { DefaultTime, Time } from "../core/columns.ts";

export interface ModelsTables {
  /** Models offered to every account, served by a deployment of the operator. */
  publicModel: {
    modelName: string;
    deployId: string;
    description: Generated<string>;
    createdAt: DefaultTime;
  };
  /** What an account says of a model of its own, by the name that it is called by. */
  modelMeta: {
    accountId: string;
    modelName: string;
    /** Of a model that is offered to every account, the offer's own counts. */
    description: Generated<string>;
    githubUrl: Generated<string>;
    paperUrl: Generated<string>;
    licenseUrl: Generated<string>;
    coverImage: Generated<string>;
    readme: Generated<string>;
    tags: Generated<string[]>;
    /** Every account may read its record; who may call it is decided by offers alone. */
    isPublic: Generated<boolean>;
    isFeatured: Generated<boolean>;
    deprecatedAt: Time | null;
    /** When it will be gone. */
    sunsetAt: Time | null;
    replacedBy: string | null;
    updatedAt: DefaultTime;
  };
}
