import { sql } from "kysely";
import type { Act } from "../../act.ts";
import type {
  GroupAttribute,
  GroupChange,
  ScimGroupFields,
  ScimStore,
  ScimUser,
  UserAttribute,
} from "../../identity/store.ts";
import { auditAct } from "../accounts/audit-rows.ts";
import { inTransaction, uniqueViolation } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import { findsRow, rowCount } from "../core/rows.ts";
import type { Db, Trx } from "../core/schema.ts";
import { epochMs, now } from "../core/time.ts";
import { type Acting, announcing, deprovision, syncMembers } from "./provided-members.ts";

const groupsOfUser = sql<ScimUser["groups"]>`coalesce((
  select jsonb_agg(jsonb_build_object('id', g.group_id, 'displayName', g.display_name) order by g.display_name)
    from scim_group_member m join scim_group g using (group_id) where m.identity_id = identity.identity_id), '[]')`;

const userColumns = [
  "identityId as id",
  "accountId as account",
  sql<string>`user_name`.as("userName"),
  "externalId",
  "email",
  "givenName",
  "familyName",
  "displayName",
  "isActive",
  groupsOfUser.as("groups"),
  epochMs("createdAt").as("createdAtMs"),
  epochMs("changedAt").as("changedAtMs"),
] as const;

/** People whom SCIM knows. */
const users = (db: Db | Trx, provider: string) =>
  db.selectFrom("identity").where("providerId", "=", provider).where("userName", "is not", null);

const groups = (db: Db | Trx, provider: string) => db.selectFrom("scimGroup").where("providerId", "=", provider);

const userTests: Readonly<Record<UserAttribute, (value: string) => ReturnType<typeof sql<boolean>>>> = {
  id: (value) => sql<boolean>`identity_id = ${value}`,
  userName: (value) => sql<boolean>`lower(user_name) = lower(${value})`,
  externalId: (value) => sql<boolean>`external_id = ${value}`,
  email: (value) => sql<boolean>`lower(email) = lower(${value})`,
};
const groupTests: Readonly<Record<GroupAttribute, (value: string) => ReturnType<typeof sql<boolean>>>> = {
  id: (value) => sql<boolean>`group_id = ${value}`,
  displayName: (value) => sql<boolean>`lower(display_name) = lower(${value})`,
  externalId: (value) => sql<boolean>`external_id = ${value}`,
};

export function createScimStore(db: Db): ScimStore {
  return asked<ScimStore>({ ...tokenMethods(db), ...userMethods(db), ...groupMethods(db) });
}

/** Announces what the transaction changed, at its end. */
const announced = <Result>(db: Db, by: Act, work: (trx: Trx, act: Acting) => Promise<Result>): Promise<Result> =>
  inTransaction(db, (trx) => announcing(trx, by, (act) => work(trx, act)));

const tokenMethods = (db: Db) =>
  ({
    setToken: (provider, lookup, act) =>
      inTransaction(db, async (trx) => {
        const row = await trx
          .updateTable("identityProvider")
          .set({ scimLookup: lookup, scimCreatedAt: lookup === null ? null : now })
          .where("providerId", "=", provider)
          .returning("providerId")
          .executeTakeFirst();
        if (!row) return false;
        const action = lookup === null ? "scim_token.delete" : "scim_token.create";
        await auditAct(trx, act, { action, subject: provider, account: null });
        return true;
      }),

    async providerOf(lookup) {
      const row = await db
        .selectFrom("identityProvider")
        .select("providerId")
        .where("scimLookup", "=", lookup)
        .executeTakeFirst();
      return row?.providerId;
    },
  }) satisfies Partial<ScimStore>;

const userMethods = (db: Db) =>
  ({
    async users(provider, filter, { offset, limit }) {
      const found = filter ? users(db, provider).where(userTests[filter.attribute](filter.value)) : users(db, provider);
      const { count } = await found.select(rowCount).executeTakeFirstOrThrow();
      const rows =
        limit === 0
          ? []
          : await found
              .select(userColumns)
              .orderBy("createdAt")
              .orderBy("identityId")
              .offset(offset)
              .limit(limit)
              .execute();
      return { total: count, rows };
    },

    user: (provider, id) => users(db, provider).select(userColumns).where("identityId", "=", id).executeTakeFirst(),

    async countUsers(provider) {
      return (await users(db, provider).select(rowCount).executeTakeFirstOrThrow()).count;
    },

    async adoptable(provider, email) {
      const row = await db
        .selectFrom("identity")
        .innerJoin("account", "account.accountId", "identity.accountId")
        .select("identityId")
        .where("providerId", "=", provider)
        .where("userName", "is", null)
        .where("deletedAt", "is", null)
        .where("emailVerified", "=", true)
        .where(sql<boolean>`lower(account.email) = lower(${email})`)
        .executeTakeFirst();
      return row?.identityId;
    },

    async link(provider, id, account, fields, act) {
      try {
        return await inTransaction(db, async (trx): Promise<"done"> => {
          const { isActive, ...plain } = fields;
          await trx
            .insertInto("identity")
            .values({
              identityId: id,
              providerId: provider,
              subject: null,
              accountId: account,
              isManaged: false,
              isActive,
              ...plain,
            })
            .execute();
          await auditAct(trx, act, {
            action: "identity.link",
            subject: account,
            account,
            after: { provider, email: fields.email },
          });
          return "done";
        });
      } catch (error) {
        if (uniqueViolation(error) !== undefined) return "taken";
        throw error;
      }
    },

    async changeUser(provider, id, change, by) {
      try {
        return await announced(db, by, async (trx, act) => {
          const before = await lockIdentity(trx, provider, id);
          if (!before) return "gone";
          const fields = change(known(before));
          await trx
            .updateTable("identity")
            .set({ ...fields, changedAt: now })
            .where("identityId", "=", id)
            .execute();
          if (before.isActive !== fields.isActive) await auditActive(trx, before, fields.isActive, act);
          if (before.isActive && !fields.isActive) await deprovision(trx, id, act);
          else if (fields.isActive) await syncMembers(trx, provider, [id], act);
          return "done";
        });
      } catch (error) {
        if (uniqueViolation(error) !== undefined) return "taken";
        throw error;
      }
    },

    removeUser: (provider, id, by) =>
      announced(db, by, async (trx, act) => {
        const before = await lockIdentity(trx, provider, id);
        if (!before || before.userName === null) return false;
        await trx.deleteFrom("scimGroupMember").where("identityId", "=", id).execute();
        await trx
          .updateTable("identity")
          .set({ isActive: false, userName: null, externalId: null, changedAt: now })
          .where("identityId", "=", id)
          .execute();
        await auditActive(trx, before, false, act);
        await deprovision(trx, id, act);
        return true;
      }),
  }) satisfies Partial<ScimStore>;

const membersOfGroup = sql<{ id: string; userName: string }[]>`coalesce((
  select jsonb_agg(jsonb_build_object('id', i.identity_id, 'userName', i.user_name) order by i.identity_id)
    from scim_group_member m join identity i using (identity_id)
    where m.group_id = scim_group.group_id and i.user_name is not null), '[]')`;

const groupSize = sql<number>`(
  select count(*)::int from scim_group_member m where m.group_id = scim_group.group_id)`.as("size");

/** Members of all groups of one page. A single group may have more: all users of its provider. */
const maxPageMembers = 2_000;

/** Number of groups, at least one, whose members fit into a page; the client asks for the others by `startIndex`. */
function pageLength(sizes: readonly number[]): number {
  let sum = 0;
  const end = sizes.findIndex((size, index) => {
    sum += size;
    return index > 0 && sum > maxPageMembers;
  });
  return end < 0 ? sizes.length : end;
}

const groupColumns = (withMembers: boolean) =>
  [
    "groupId as id",
    "displayName",
    "externalId",
    (withMembers ? membersOfGroup : sql<{ id: string; userName: string }[]>`'[]'::jsonb`).as("members"),
    epochMs("createdAt").as("createdAtMs"),
    epochMs("changedAt").as("changedAtMs"),
  ] as const;

const groupMethods = (db: Db) =>
  ({
    async groups(provider, filter, { offset, limit }, withMembers) {
      const found = filter
        ? groups(db, provider).where(groupTests[filter.attribute](filter.value))
        : groups(db, provider);
      const { count } = await found.select(rowCount).executeTakeFirstOrThrow();
      if (limit === 0) return { total: count, rows: [] };
      const ordered = found.orderBy("createdAt").orderBy("groupId");
      const sizes = await ordered.select(["groupId as id", groupSize]).offset(offset).limit(limit).execute();
      const page = withMembers ? sizes.slice(0, pageLength(sizes.map(({ size }) => size))) : sizes;
      if (page.length === 0) return { total: count, rows: [] };
      const ids = page.map(({ id }) => id);
      const rows = await ordered.select(groupColumns(withMembers)).where("groupId", "in", ids).execute();
      return { total: count, rows };
    },

    group: (provider, id, withMembers) =>
      groups(db, provider).select(groupColumns(withMembers)).where("groupId", "=", id).executeTakeFirst(),

    async createGroup(provider, id, { members, ...fields }, max, by) {
      try {
        return await announced(db, by, async (trx, act) => {
          if (!(await lockProvider(trx, provider))) return "gone";
          const { count } = await groups(trx, provider).select(rowCount).executeTakeFirstOrThrow();
          if (count >= max) return "full";
          const joined = [...new Set(members)].toSorted();
          if (!(await areUsers(trx, provider, joined))) return "unknown";
          await trx
            .insertInto("scimGroup")
            .values({ groupId: id, providerId: provider, ...fields })
            .execute();
          await addToGroup(trx, id, joined);
          await auditGroup(trx, "scim_group.create", provider, { id, ...fields, joined: joined.length }, act);
          await syncMembers(trx, provider, joined, act);
          return "done";
        });
      } catch (error) {
        if (uniqueViolation(error) !== undefined) return "taken";
        throw error;
      }
    },

    async changeGroup(provider, id, changes, by) {
      try {
        return await announced(db, by, async (trx, act) => {
          // Changes of one provider's groups wait for each other, so that no role is computed from half of them.
          if (!(await lockProvider(trx, provider))) return "gone";
          const before = await groups(trx, provider)
            .select(["displayName", "externalId"])
            .where("groupId", "=", id)
            .forUpdate()
            .executeTakeFirst();
          if (!before) return "gone";
          const present = await memberIds(trx, id);
          const { fields, wanted } = outcomeOf(before, present, changes);
          const joined = [...wanted].filter((one) => !present.has(one)).toSorted();
          const left = [...present].filter((one) => !wanted.has(one)).toSorted();
          if (!(await areUsers(trx, provider, joined))) return "unknown";
          await trx
            .updateTable("scimGroup")
            .set({ ...fields, changedAt: now })
            .where("groupId", "=", id)
            .execute();
          await trx
            .deleteFrom("scimGroupMember")
            .where("groupId", "=", id)
            .where(sql<boolean>`identity_id = any(${left}::text[])`)
            .execute();
          await addToGroup(trx, id, joined);
          const after = { id, ...fields, joined: joined.length, left: left.length };
          await auditGroup(trx, "scim_group.change", provider, after, act);
          const isRenamed = fields.displayName !== before.displayName || fields.externalId !== before.externalId;
          await syncMembers(trx, provider, isRenamed ? [...wanted, ...left] : [...joined, ...left], act);
          return "done";
        });
      } catch (error) {
        if (uniqueViolation(error) !== undefined) return "taken";
        throw error;
      }
    },

    removeGroup: (provider, id, by) =>
      announced(db, by, async (trx, act) => {
        if (!(await lockProvider(trx, provider))) return false;
        const members = await memberIds(trx, id);
        const row = await trx
          .deleteFrom("scimGroup")
          .where("providerId", "=", provider)
          .where("groupId", "=", id)
          .returning(["displayName", "externalId"])
          .executeTakeFirst();
        if (!row) return false;
        await auditGroup(trx, "scim_group.delete", provider, { id, ...row }, act);
        await syncMembers(trx, provider, [...members], act);
        return true;
      }),
  }) satisfies Partial<ScimStore>;

/** A group after all changes, in order. */
function outcomeOf(before: ScimGroupFields, present: ReadonlySet<string>, changes: readonly GroupChange[]) {
  let fields = before;
  let wanted = new Set(present);
  for (const { members, ...change } of changes) {
    fields = { ...fields, ...change };
    if (members?.only) wanted = new Set(members.only);
    for (const one of members?.add ?? []) wanted.add(one);
    for (const one of members?.remove ?? []) wanted.delete(one);
  }
  return { fields, wanted };
}

async function addToGroup(trx: Trx, group: string, people: readonly string[]): Promise<void> {
  await sql`
    insert into scim_group_member (group_id, identity_id)
      select ${group}, identity_id from unnest(${[...people]}::text[]) as joined (identity_id)`.execute(trx);
}

const lockProvider = (trx: Trx, provider: string): Promise<boolean> =>
  trx
    .selectFrom("identityProvider")
    .select("providerId")
    .where("providerId", "=", provider)
    .forUpdate()
    .$call(findsRow);

const lockIdentity = (trx: Trx, provider: string, id: string) =>
  trx
    .selectFrom("identity")
    .select(["isActive", "userName", "externalId", "email", "givenName", "familyName", "displayName"])
    .select("accountId as account")
    .where("providerId", "=", provider)
    .where("identityId", "=", id)
    .forUpdate()
    .executeTakeFirst();

/** Undefined: SCIM does not know the person. */
function known({ userName, externalId, email, givenName, familyName, displayName, isActive }: LockedIdentity) {
  if (userName === null) return undefined;
  return { userName, externalId, email, givenName, familyName, displayName, isActive };
}

type LockedIdentity = NonNullable<Awaited<ReturnType<typeof lockIdentity>>>;

async function memberIds(trx: Trx, group: string): Promise<ReadonlySet<string>> {
  const rows = await trx.selectFrom("scimGroupMember").select("identityId").where("groupId", "=", group).execute();
  return new Set(rows.map(({ identityId }) => identityId));
}

async function areUsers(trx: Trx, provider: string, ids: readonly string[]): Promise<boolean> {
  if (ids.length === 0) return true;
  const { count } = await users(trx, provider)
    .select(rowCount)
    .where(sql<boolean>`identity_id = any(${[...ids]}::text[])`)
    .executeTakeFirstOrThrow();
  return count === ids.length;
}

const auditActive = (
  trx: Trx,
  { account, email }: { readonly account: string; readonly email: string },
  isActive: boolean,
  act: Act,
): Promise<void> =>
  auditAct(trx, act, {
    action: isActive ? "identity.activate" : "identity.deactivate",
    subject: account,
    account,
    after: { email },
  });

const auditGroup = (trx: Trx, action: string, provider: string, after: object, act: Act): Promise<void> =>
  auditAct(trx, act, { action, subject: provider, account: null, after });
