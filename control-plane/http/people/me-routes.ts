import type { FastifyReply } from "fastify";
import { type Static, Type } from "typebox";
import { steadyTime } from "../../../proto/steady-time.ts";
import type { AccountRecord } from "../../accounts/account-record.ts";
import type { Caller } from "../../accounts/caller.ts";
import { sessionRequired } from "../../accounts/factor-errors.ts";
import { checkRecentSignIn } from "../../accounts/sessions.ts";
import type { ProfileChange } from "../../accounts/store.ts";
import { actorOf } from "../core/act-of.ts";
import type { Endpoints } from "../core/endpoint.ts";
import type { Checklist } from "../money/payment-schemas.ts";
import { readChecklist } from "../money/read-checklist.ts";
import { AccountBody, AccountChange, TeamName } from "./account-schemas.ts";
import type { PeopleFeatures } from "./features.ts";
import { takeCookie } from "./session.ts";

const tag = "account";
const access = "key";

export function addMeRoutes(endpoints: Endpoints, deps: PeopleFeatures): void {
  const { profiles, checklists, deleteAccount, factors } = deps;

  /** Throws sessionRequired for an API key of an account with a second factor: a stolen key must not take the account over. */
  async function checkOwner({ account }: Caller, { request }: FastifyReply): Promise<void> {
    if (request.state?.session) return;
    if ((await factors.overview(account)).factors.length > 0) throw sessionRequired();
  }

  endpoints.add({
    method: "GET",
    path: "/v1/me",
    summary: "The account of this key",
    isForEnrolling: true,
    tag,
    access,
    query: Type.Object({ checklist: Type.Optional(Type.Boolean({ default: false })) }),
    answer: AccountBody,
    refusals: [404, 503],
    async handler({ caller, query }) {
      const record = await profiles.read(caller.account);
      return renderAccount(record, query.checklist === true ? await readChecklist(checklists, caller) : null);
    },
  });

  endpoints.add({
    method: "PATCH",
    path: "/v1/me",
    summary: "Change what the account says of its owner",
    tag,
    access,
    body: AccountChange,
    answer: AccountBody,
    refusals: [404, 409, 429, 503],
    async handler({ caller, body, reply }) {
      // People sign in with the address, so a change of it needs the same proof as a change of the password.
      if (typeof body.email === "string") {
        checkRecentSignIn(reply.request.state?.session, steadyTime.nowMs());
        await checkOwner(caller, reply);
      }
      return renderAccount(await profiles.change(actorOf(caller, reply), changeOf(body)), null);
    },
  });

  endpoints.add({
    method: "DELETE",
    path: "/v1/me",
    summary: "End the account with its keys, sessions and deployments; ledger and usage stay",
    needsRecentSignIn: true,
    tag,
    access,
    answer: AccountBody,
    refusals: [404, 409, 503],
    async handler({ caller, reply }) {
      await checkOwner(caller, reply);
      const record = await deleteAccount(actorOf(caller, reply));
      if (caller.via === "session") takeCookie(reply);
      return renderAccount(record, null);
    },
  });

  endpoints.add({
    method: "GET",
    path: "/v1/me/emails",
    summary: "The account's verified e-mail addresses",
    tag,
    access,
    answer: Type.Object({ emails: Type.Array(Type.String()) }),
    refusals: [404, 503],
    handler: async ({ caller }) => ({ emails: await profiles.emails(caller.account) }),
  });

  endpoints.add({
    method: "POST",
    path: "/v1/me/team_display_name",
    summary: "Name the team of a team account",
    tag,
    access,
    body: TeamName,
    answer: AccountBody,
    refusals: [404, 409, 503],
    handler: async ({ caller, body, reply }) =>
      renderAccount(await profiles.nameTeam(actorOf(caller, reply), body.display_name), null),
  });
}

function changeOf(body: Static<typeof AccountChange>): ProfileChange {
  const given = {
    email: body.email,
    displayName: body.display_name,
    name: body.name,
    firstName: body.first_name,
    lastName: body.last_name,
    country: body.country,
    countryCode: body.country_code,
    company: body.company,
    website: body.website,
    title: body.title,
    useCase: body.use_case,
    attribution: body.attribution,
    marketingEmails: body.marketing_emails,
    isBusinessAccount: body.is_business_account,
  };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined && value !== null));
}

function renderAccount(record: AccountRecord, checklist: Checklist | null): AccountBody {
  return {
    uid: record.uid,
    email: record.email,
    email_verified: record.emailVerified,
    account_setup: record.accountSetup,
    require_email_verified: record.requireEmailVerified,
    display_name: record.displayName,
    provider: record.provider,
    picture: record.picture,
    is_admin: record.isAdmin,
    name: record.name,
    first_name: record.firstName,
    last_name: record.lastName,
    country: record.country,
    is_business_account: record.isBusinessAccount,
    company: record.company,
    website: record.website,
    title: record.title,
    is_team_account: record.isTeamAccount,
    is_team_owner: record.isTeamOwner,
    team_role: record.teamRole,
    team_display_name: record.teamDisplayName,
    is_team_upgrade_enabled: record.isTeamUpgradeEnabled,
    root_uid: record.rootUid,
    checklist,
  };
}
