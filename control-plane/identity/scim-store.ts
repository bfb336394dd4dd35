// Storage of what identity providers provision by SCIM. Every statement takes the provider. Every method throws DatabaseUnavailable.
import type { AccountId } from "../../proto/ids.ts";
import type { Act } from "../act.ts";

/** What a provider may say about a person. */
export interface ScimUserFields {
  readonly userName: string;
  readonly externalId: string | null;
  readonly email: string;
  readonly givenName: string;
  readonly familyName: string;
  readonly displayName: string;
  readonly isActive: boolean;
}

export interface ScimUser extends ScimUserFields {
  readonly id: string;
  readonly account: AccountId;
  readonly groups: readonly { readonly id: string; readonly displayName: string }[];
  readonly createdAtMs: number;
  readonly changedAtMs: number;
}

export interface ScimGroupFields {
  readonly displayName: string;
  readonly externalId: string | null;
}

export interface ScimGroup extends ScimGroupFields {
  readonly id: string;
  readonly members: readonly { readonly id: string; readonly userName: string }[];
  readonly createdAtMs: number;
  readonly changedAtMs: number;
}

export interface ScimFilter<Attribute extends string> {
  readonly attribute: Attribute;
  readonly value: string;
}

export type UserAttribute = "id" | "userName" | "externalId" | "email";
export type GroupAttribute = "id" | "displayName" | "externalId";

export interface ScimPage {
  /** From 0. */
  readonly offset: number;
  readonly limit: number;
}

export interface Found<Row> {
  readonly total: number;
  readonly rows: readonly Row[];
}

export type ScimOutcome = "done" | "gone" | "taken" | "full";

export interface ScimStore {
  /** Replaces the token, or removes it; audited. False: no such provider. */
  setToken(provider: string, lookup: Buffer | null, act: Act): Promise<boolean>;
  /** Id of the provider whose token this is. */
  providerOf(lookup: Buffer): Promise<string | undefined>;
  users(provider: string, filter: ScimFilter<UserAttribute> | undefined, page: ScimPage): Promise<Found<ScimUser>>;
  user(provider: string, id: string): Promise<ScimUser | undefined>;
  countUsers(provider: string): Promise<number>;
  /** An identity of the provider that SCIM does not know yet, of the account that has verified this address. */
  adoptable(provider: string, email: string): Promise<string | undefined>;
  /** Links an account to a new identity. */
  link(provider: string, id: string, account: AccountId, fields: ScimUserFields, act: Act): Promise<"done" | "taken">;
  /**
   * Changes a person, whom SCIM knows unless `before` is undefined; `change` may throw. Who becomes inactive loses the membership that the provider decides on, its keys, and the sessions that the provider
   * opened; of an account that it created all sessions, workload identities and keys, also in other organisations. Announced and audited.
   */
  changeUser(
    provider: string,
    id: string,
    change: (before: ScimUserFields | undefined) => ScimUserFields,
    act: Act,
  ): Promise<ScimOutcome>;
  /** The same as inactive; SCIM then no longer knows the person. */
  removeUser(provider: string, id: string, act: Act): Promise<boolean>;
  /** With members a page may have fewer groups than its limit. */
  groups(
    provider: string,
    filter: ScimFilter<GroupAttribute> | undefined,
    page: ScimPage,
    withMembers: boolean,
  ): Promise<Found<ScimGroup>>;
  group(provider: string, id: string, withMembers: boolean): Promise<ScimGroup | undefined>;
  /** `full`: the provider has `max` groups. `unknown`: a member is no person of this provider. */
  createGroup(
    provider: string,
    id: string,
    group: ScimGroupFields & { readonly members: readonly string[] },
    max: number,
    act: Act,
  ): Promise<ScimOutcome | "unknown">;
  /** All changes, in order, or none. Gives the people who joined or left the roles of their groups. */
  changeGroup(
    provider: string,
    id: string,
    changes: readonly GroupChange[],
    act: Act,
  ): Promise<ScimOutcome | "unknown">;
  removeGroup(provider: string, id: string, act: Act): Promise<boolean>;
}

export type GroupChange = Partial<ScimGroupFields> & { readonly members?: MemberChange };

/** `only`: the whole list. */
export interface MemberChange {
  readonly only?: readonly string[];
  readonly add?: readonly string[];
  readonly remove?: readonly string[];
}
