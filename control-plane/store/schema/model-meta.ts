import type { Generated } from "kysely";
import type { DefaultTime, Time } from "./columns.ts";

export interface ModelMetaTables {
  /** What an account says of a model of its own, by the name that it is called by. */
  model_meta: {
    account_id: string;
    model_name: string;
    /** Of a model that is offered to every account, the offer's own counts. */
    description: Generated<string>;
    github_url: Generated<string>;
    paper_url: Generated<string>;
    license_url: Generated<string>;
    cover_image: Generated<string>;
    readme: Generated<string>;
    tags: Generated<string[]>;
    /** Every account may read its record; who may call it is decided by offers alone. */
    is_public: Generated<boolean>;
    is_featured: Generated<boolean>;
    deprecated_at: Time | null;
    /** When it will be gone. */
    sunset_at: Time | null;
    replaced_by: string | null;
    updated_at: DefaultTime;
  };
}
