// Tables of identity providers and of the people who sign in through them.
import type { Generated } from "kysely";
import type { AccountId, KeyId, MemberId, ProjectId } from "../../../proto/ids.ts";
import type { KeyRole } from "../../accounts/store.ts";
import type { ProvidedRole } from "../../identity/store.ts";
import type { DefaultTime, Json, Time } from "../core/columns.ts";

export interface IdentityTables {
  identityProvider: {
    providerId: string;
    name: string;
    /** Never changes: a subject is unique for its issuer only. */
    issuer: string;
    clientId: string;
    /** Sealed; null: a public client. */
    clientSecret: Buffer | null;
    scopes: string;
    /** Lower case; a domain belongs to one provider. */
    domains: string[];
    /** Addresses of its domains sign in through it only. */
    isEnforced: boolean;
    /** The sign-in page shows its button to everybody. */
    isListed: boolean;
    /** Addresses without `email_verified` count as verified. */
    trustsEmail: boolean;
    /** Organisation whose members its people are; null: none. */
    organizationId: AccountId | null;
    /** Role of people without a mapped group; null: they are no members. */
    defaultRole: ProvidedRole | null;
    groupsClaim: string;
    roleOfGroup: Json<Readonly<Record<string, ProvidedRole>>>;
    defaultProjectIds: Generated<ProjectId[]>;
    projectsOfGroup: Json<Readonly<Record<string, readonly ProjectId[]>>>;
    /** Keyed hash of the SCIM token; null: none. */
    scimLookup: Generated<Buffer | null>;
    scimCreatedAt: Time | null;
    /** Rises with each change. */
    revision: Generated<number>;
    createdAt: DefaultTime;
  };
  /** A person as a provider knows them. */
  identity: {
    identityId: string;
    providerId: string;
    /** Null: provisioned, and has not signed in yet. */
    subject: string | null;
    accountId: AccountId;
    /** As the provider last reported it. */
    email: string;
    /** The provider created the account, which ends with it. */
    isManaged: boolean;
    /** Signed in by another proof than a provider's. */
    isLinkedByOwner: Generated<boolean>;
    isActive: Generated<boolean>;
    /** Set by SCIM. */
    userName: Generated<string | null>;
    externalId: Generated<string | null>;
    givenName: Generated<string>;
    familyName: Generated<string>;
    displayName: Generated<string>;
    /** Groups of the last ID token. */
    claimedGroups: Generated<string[]>;
    createdAt: DefaultTime;
    changedAt: DefaultTime;
    lastUsedAt: Time | null;
  };
  /** A browser that was sent to a provider; used once. */
  providerSignIn: {
    /** Keyed hash of `state`. */
    lookup: Buffer;
    providerId: string;
    /** Keyed hash of the browser's cookie. */
    browser: Buffer;
    /** Path on this server. */
    returnTo: string;
    /** The person must sign in at the provider again. */
    isFresh: boolean;
    /** Account and session that link an identity; null: a sign-in. */
    accountId: AccountId | null;
    session: Buffer | null;
    expiresAt: Time;
  };
  /** Rules by which programs exchange a token of their platform for a key. */
  workloadIdentity: {
    ruleId: string;
    accountId: AccountId;
    /** For whom its keys are, in an organisation; without that member they are not made. Null: the account itself. */
    memberId: MemberId | null;
    /** Member who created it, with whom it ends. Null: the account itself. */
    createdBy: MemberId | null;
    /** Project of its keys. Null: the first of the member's, if there is one. */
    projectId: ProjectId | null;
    name: string;
    issuer: string;
    audience: string;
    /** `*` stands for any characters. */
    subject: string;
    claims: Json<Readonly<Record<string, string>>>;
    role: KeyRole;
    allowedModels: string[] | null;
    lifeSeconds: number;
    createdAt: DefaultTime;
    lastUsedAt: Time | null;
  };
  workloadExchange: {
    exchangeId: string;
    ruleId: string;
    /** Null until the key exists. */
    tokenId: KeyId | null;
    /** SHA-256 of the token's signed part. */
    tokenHash: Buffer;
    tokenExpiresAt: Time;
    /** End of the key. */
    expiresAt: Time;
  };
  scimGroup: {
    groupId: string;
    providerId: string;
    displayName: string;
    externalId: string | null;
    createdAt: DefaultTime;
    changedAt: DefaultTime;
  };
  scimGroupMember: { groupId: string; identityId: string };
}
