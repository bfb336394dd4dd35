// Storage of identity providers and identities. Every method throws DatabaseUnavailable.
import type { AccountId, ProjectId } from "../../proto/ids.ts";
import type { Act, Actor } from "../act.ts";

export type * from "./scim-store.ts";
export type { NewExchange, WorkloadIdentity, WorkloadRule, WorkloadStore } from "./workload-store.ts";

/** Roles in an organisation that a provider may give; an owner is always invited by an owner. */
export const providedRoles = ["admin", "developer", "billing", "viewer"] as const;
export type ProvidedRole = (typeof providedRoles)[number];

export interface ProviderRules {
  readonly name: string;
  readonly clientId: string;
  readonly scopes: string;
  /** Lower case. */
  readonly domains: readonly string[];
  readonly isEnforced: boolean;
  readonly isListed: boolean;
  readonly trustsEmail: boolean;
  readonly organization: AccountId | null;
  readonly defaultRole: ProvidedRole | null;
  readonly groupsClaim: string;
  readonly roleOfGroup: Readonly<Record<string, ProvidedRole>>;
  /** Projects for members whose groups have none, the default first. Not empty where a group has projects; empty: any project, or none. */
  readonly defaultProjects: readonly ProjectId[];
  readonly projectsOfGroup: Readonly<Record<string, readonly ProjectId[]>>;
}

export interface ProviderRow extends ProviderRules {
  readonly id: string;
  readonly issuer: string;
  /** Sealed; null: a public client. */
  readonly clientSecret: Buffer | null;
  readonly revision: number;
  readonly scimCreatedAtMs: number | null;
  readonly createdAtMs: number;
}

export interface ProviderSecret {
  readonly clientSecret: Buffer | null;
}

export type ProviderOutcome =
  | "done"
  | "gone"
  | "full"
  | "issuer_taken"
  | "domain_taken"
  | "no_organization"
  | "no_project"
  | "no_default_project";

export interface ProviderStore {
  /** Oldest first. */
  list(): Promise<readonly ProviderRow[]>;
  get(id: string): Promise<ProviderRow | undefined>;
  /** The provider to which the domain of this address belongs, as the database lowers it, or `domain`, the form that mail servers use. */
  ofAddress(email: string, domain: string): Promise<ProviderRow | undefined>;
  /** Audited. At most `max` providers. */
  create(
    provider: ProviderRules & ProviderSecret & Pick<ProviderRow, "id" | "issuer">,
    max: number,
    act: Act,
  ): Promise<ProviderOutcome>;
  /** Audited. */
  change(id: string, change: Partial<ProviderRules & ProviderSecret>, act: Act): Promise<ProviderOutcome>;
  /** Removes its identities and the members that it made; accounts stay. Audited. */
  remove(id: string, act: Act): Promise<ProviderRow | undefined>;
}

/** A browser on its way to a provider and back. */
export interface PendingSignIn {
  readonly provider: string;
  readonly browser: Buffer;
  readonly returnTo: string;
  readonly isFresh: boolean;
  /** Set when a signed-in person links an identity. */
  readonly link: { readonly account: AccountId; readonly session: Buffer } | null;
}

export interface IdentityRow {
  readonly id: string;
  readonly provider: string;
  readonly account: AccountId;
  readonly subject: string | null;
  readonly isActive: boolean;
  readonly isManaged: boolean;
  /** Its owner linked it, signed in by another proof than a provider's. */
  readonly isLinkedByOwner: boolean;
  /** The account is an operator's, or an organisation. */
  readonly isProtected: boolean;
}

/** An identity as the owner of its account sees it. */
export interface OwnIdentity {
  readonly id: string;
  readonly provider: string;
  readonly providerName: string;
  readonly email: string;
  /** The provider created the account. */
  readonly isManaged: boolean;
  readonly createdAtMs: number;
  readonly lastUsedAtMs: number | null;
}

/** An account with an address that a provider vouches for. */
export interface AddressOwner {
  readonly account: AccountId;
  readonly isVerified: boolean;
  /** An operator's account, or an organisation. */
  readonly isProtected: boolean;
  /** A password, valid keys or second factors, which a stranger may hold who created the account. */
  readonly hasOwnProof: boolean;
}

export interface IdentityUse {
  /** Empty: the provider vouches for none. */
  readonly email: string;
  readonly groups: readonly string[];
}

export interface IdentityStore {
  putSignIn(lookup: Buffer, pending: PendingSignIn, expiresAtMs: number): Promise<void>;
  /** Deletes it. Undefined: unknown, used or expired. */
  takeSignIn(lookup: Buffer, nowMs: number): Promise<(PendingSignIn & { readonly expiresAtMs: number }) | undefined>;
  find(provider: string, subject: string): Promise<IdentityRow | undefined>;
  /** Provisioned by SCIM under this address, without a subject yet. */
  findProvisioned(provider: string, email: string): Promise<IdentityRow | undefined>;
  /** False when it has one already. */
  bindSubject(identity: string, subject: string): Promise<boolean>;
  ownerOf(email: string): Promise<AddressOwner | undefined>;
  /** Audited. `taken`: the subject, or the account with this provider, is linked to another. */
  link(
    actor: Actor,
    identity: Pick<IdentityRow, "id" | "provider" | "isLinkedByOwner"> & {
      readonly subject: string;
      readonly email: string;
    },
  ): Promise<"done" | "taken" | "gone">;
  /** Records a sign-in, and gives the person the role of its groups. */
  noteUse(identity: string, use: IdentityUse, act: Act): Promise<void>;
  own(account: AccountId): Promise<readonly OwnIdentity[]>;
  /** False when there is none; `managed`: it is the account's only way in. Ends the sessions that it opened. */
  unlink(actor: Actor, identity: string): Promise<"done" | "gone" | "managed">;
}
