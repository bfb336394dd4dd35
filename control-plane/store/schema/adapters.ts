import type { Generated } from "kysely";
import type { Adapter } from "../../deployments/store.ts";
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
    source: Generated<Adapter["source"]>;
    /** Of the hub; of another source its URL as it is shown: what follows the path may be a secret. */
    repo: string;
    revision: string;
    /** The one of the repository that is meant; empty: by the usual names. */
    file: Generated<string>;
    /** The whole of it where the source is no repository, under the account's data key. */
    url: Buffer | null;
    /** Of the hub, or of the URL's host, under the account's data key. */
    token: Buffer | null;
    /** What every instance is to hold: the repository's commit, or the sha256 of the one file. Empty until it is known. */
    commit: Generated<string>;
    is_private: Generated<boolean>;
    description: Generated<string>;
    /** deployed: some instance has held it. */
    status: Generated<"initializing" | "downloading" | "deploying" | "deployed" | "failed" | "deleted">;
    fail_reason: Generated<string>;
    /** The instances of the base are to hold it: it was used of late, and there is room. */
    is_wanted: Generated<boolean>;
    used_at: DefaultTime;
    /** When another one lost its place because an instance had no room for this one. */
    room_made_at: Date | null;
    created_at: DefaultTime;
    updated_at: DefaultTime;
  };
}
