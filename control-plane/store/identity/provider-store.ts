import { sql } from "kysely";
import type { ProviderRow, ProviderRules, ProviderSecret, ProviderStore } from "../../identity/store.ts";
import { auditAct } from "../accounts/audit-rows.ts";
import { lockProjects } from "../accounts/project-store.ts";
import { inTransaction, uniqueViolation } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import { findsRow, rowCount } from "../core/rows.ts";
import type { Db, Trx } from "../core/schema.ts";
import { epochMs } from "../core/time.ts";
import { type Acting, announcing, endProvidedMembers } from "./provided-members.ts";

/** Held by every write of providers, so that two at once do not take one domain. */
const providersLock = 7_205_021;

export const providerColumns = [
  "providerId as id",
  "identityProvider.name",
  "issuer",
  "clientId",
  "clientSecret",
  "scopes",
  "domains",
  "isEnforced",
  "isListed",
  "trustsEmail",
  "organizationId as organization",
  "defaultRole",
  "groupsClaim",
  "roleOfGroup",
  "defaultProjectIds as defaultProjects",
  "projectsOfGroup",
  "revision",
  epochMs<null>("scimCreatedAt").as("scimCreatedAtMs"),
  epochMs("identityProvider.createdAt").as("createdAtMs"),
] as const;

export function createProviderStore(db: Db): ProviderStore {
  const known = () => db.selectFrom("identityProvider").select(providerColumns);
  return asked<ProviderStore>({
    list: () => known().orderBy("identityProvider.createdAt").orderBy("providerId").execute(),
    get: (id) => known().where("providerId", "=", id).executeTakeFirst(),
    // Accounts are found by lower(), which maps more letters to ASCII than JavaScript does.
    ofAddress: (email, domain) =>
      known()
        .where(sql<boolean>`domains && array[split_part(lower(${email}::text), '@', -1), ${domain}::text]`)
        .executeTakeFirst(),

    async create({ id, issuer, ...provider }, max, act) {
      try {
        return await inTransaction(db, async (trx) => {
          await lockProviders(trx);
          const { count } = await trx.selectFrom("identityProvider").select(rowCount).executeTakeFirstOrThrow();
          if (count >= max) return "full";
          const refusal = (await refusalOf(trx, id, provider)) ?? (await projectRefusal(trx, provider));
          if (refusal) return refusal;
          await trx
            .insertInto("identityProvider")
            .values({
              providerId: id,
              issuer,
              name: provider.name,
              clientId: provider.clientId,
              clientSecret: provider.clientSecret,
              scopes: provider.scopes,
              domains: [...provider.domains],
              isEnforced: provider.isEnforced,
              isListed: provider.isListed,
              trustsEmail: provider.trustsEmail,
              organizationId: provider.organization,
              defaultRole: provider.defaultRole,
              groupsClaim: provider.groupsClaim,
              roleOfGroup: JSON.stringify(provider.roleOfGroup),
              defaultProjectIds: [...provider.defaultProjects],
              projectsOfGroup: JSON.stringify(provider.projectsOfGroup),
            })
            .execute();
          await auditAct(trx, act, {
            action: "identity_provider.create",
            subject: id,
            account: null,
            after: audited({ ...provider, issuer }),
          });
          return "done";
        });
      } catch (error) {
        if (uniqueViolation(error) !== undefined) return "issuer_taken";
        throw error;
      }
    },

    change: (id, change, act) =>
      inTransaction(db, async (trx) => {
        await lockProviders(trx);
        const before = await trx
          .selectFrom("identityProvider")
          .select(providerColumns)
          .where("providerId", "=", id)
          .forUpdate()
          .executeTakeFirst();
        if (!before) return "gone";
        const refusal = (await refusalOf(trx, id, change)) ?? (await projectRefusal(trx, { ...before, ...change }));
        if (refusal) return refusal;
        const { organization, domains, roleOfGroup, defaultProjects, projectsOfGroup, ...plain } = change;
        await trx
          .updateTable("identityProvider")
          .set((eb) => ({
            ...plain,
            ...(organization === undefined ? {} : { organizationId: organization }),
            ...(domains === undefined ? {} : { domains: [...domains] }),
            ...(roleOfGroup === undefined ? {} : { roleOfGroup: JSON.stringify(roleOfGroup) }),
            ...(defaultProjects === undefined ? {} : { defaultProjectIds: [...defaultProjects] }),
            ...(projectsOfGroup === undefined ? {} : { projectsOfGroup: JSON.stringify(projectsOfGroup) }),
            revision: eb("revision", "+", 1),
          }))
          .where("providerId", "=", id)
          .execute();
        await auditAct(trx, act, {
          action: "identity_provider.change",
          subject: id,
          account: null,
          before: audited(before),
          after: audited({ ...before, ...change }),
        });
        const left = before.organization;
        if (left !== null && organization !== undefined && organization !== left)
          await announcing(trx, act, (acting) => endProvidedMembers(trx, id, left, acting));
        return "done";
      }),

    remove: (id, act) =>
      inTransaction(db, async (trx) => {
        await lockProviders(trx);
        const row = await trx
          .selectFrom("identityProvider")
          .select(providerColumns)
          .where("providerId", "=", id)
          .forUpdate()
          .executeTakeFirst();
        if (!row) return undefined;
        const { organization } = row;
        const work = async (acting: Acting) => {
          if (organization !== null) await endProvidedMembers(trx, id, organization, acting);
          await trx.deleteFrom("identityProvider").where("providerId", "=", id).execute();
        };
        await auditAct(trx, act, {
          action: "identity_provider.delete",
          subject: id,
          account: null,
          before: audited(row),
        });
        await announcing(trx, act, work);
        return row;
      }),
  });
}

async function lockProviders(trx: Trx): Promise<void> {
  await sql`select pg_advisory_xact_lock(${sql.lit(providersLock)})`.execute(trx);
}

async function refusalOf(
  trx: Trx,
  id: string,
  { domains, organization }: Partial<ProviderRules>,
): Promise<"domain_taken" | "no_organization" | undefined> {
  const hasDomain =
    domains !== undefined &&
    (await trx
      .selectFrom("identityProvider")
      .select("providerId")
      .where("providerId", "<>", id)
      .where(sql<boolean>`domains && ${[...domains]}::text[]`)
      .$call(findsRow));
  if (hasDomain) return "domain_taken";
  if (organization === undefined || organization === null) return undefined;
  const isKnown = await trx
    .selectFrom("account")
    .select("accountId")
    .where("accountId", "=", organization)
    .where("isTeamAccount", "=", true)
    .where("deletedAt", "is", null)
    .forShare()
    .$call(findsRow);
  return isKnown ? undefined : "no_organization";
}

/** Locks the projects of the rules until the commit. */
async function projectRefusal(
  trx: Trx,
  rules: Pick<ProviderRules, "organization" | "defaultProjects" | "projectsOfGroup">,
): Promise<"no_project" | "no_default_project" | undefined> {
  const projects = new Set([...rules.defaultProjects, ...Object.values(rules.projectsOfGroup).flat()]);
  if (projects.size === 0) return undefined;
  // Without default projects a member who leaves the last of these groups could use any project.
  if (rules.defaultProjects.length === 0) return "no_default_project";
  const { organization } = rules;
  return organization !== null && (await lockProjects(trx, organization, [...projects])) ? undefined : "no_project";
}

/** Without the client secret. */
const audited = (row: ProviderRules & ProviderSecret & Pick<ProviderRow, "issuer">) => ({
  name: row.name,
  issuer: row.issuer,
  client_id: row.clientId,
  has_client_secret: row.clientSecret !== null,
  scopes: row.scopes,
  domains: row.domains,
  is_enforced: row.isEnforced,
  is_listed: row.isListed,
  trusts_email: row.trustsEmail,
  organization: row.organization,
  default_role: row.defaultRole,
  groups_claim: row.groupsClaim,
  role_of_group: row.roleOfGroup,
  default_project_ids: row.defaultProjects,
  projects_of_group: row.projectsOfGroup,
});
