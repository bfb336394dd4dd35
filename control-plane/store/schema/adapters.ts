import type { Generated } from "kysely";
import type { DefaultTime } from "./columns.ts";

export interface AdaptersTables {
  /** LoRA adapters: what the instances of a deployment serve beside their own model. */
  adapter: {
    adapter_id: string;
    account_id: string;
    /** `owner/name`, as requests name it. */
    name: string;
    /** Whose instances hold it. */
    base_deploy_id: string;
    /** The base's name when the adapter was made. */
    base_model: string;
    /** The base is a model offered to every account: the adapter follows it to another deployment. */
    is_base_public: boolean;
    repo: string;
    revision: string;
    /** Of the hub, under the account's data key. */
    token: Buffer | null;
    is_private: Generated<boolean>;
    description: Generated<string>;
    /** deployed: some instance has held it. */
    status: Generated<"initializing" | "downloading" | "deploying" | "deployed" | "failed" | "deleted">;
    fail_reason: Generated<string>;
    /** The instances of the base are to hold it: it was used of late, and there is room. */
    is_wanted: Generated<boolean>;
    used_at: DefaultTime;
    created_at: DefaultTime;
    updated_at: DefaultTime;
  };
}
