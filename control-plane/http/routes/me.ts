import { type Static, Type } from "typebox";
import type { ProfileChange } from "../../accounts/store.ts";
import { actorOf } from "../act-of.ts";
import type { Endpoints } from "../endpoint.ts";
import { readChecklist } from "../read-checklist.ts";
import { renderAccount } from "../render-account.ts";
import { AccountBody, AccountChange, TeamName } from "../schemas/account.ts";
import { takeCookie } from "../session.ts";
import type { HttpDeps } from "../verbs.ts";

const tag = "account";
const access = "key";

export function addMeRoutes(
  endpoints: Endpoints,
  { profiles, checklists, deleteAccount }: Pick<HttpDeps, "profiles" | "checklists" | "deleteAccount">,
): void {
  endpoints.add({
    method: "GET",
    path: "/v1/me",
    summary: "The account of this key",
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
    refusals: [404, 409, 503],
    handler: async ({ caller, body, reply }) =>
      renderAccount(await profiles.change(actorOf(caller, reply), changeOf(body)), null),
  });

  endpoints.add({
    method: "DELETE",
    path: "/v1/me",
    summary: "End the account with its keys, sessions and deployments; ledger and usage stay",
    tag,
    access,
    answer: AccountBody,
    refusals: [404, 409, 503],
    async handler({ caller, reply }) {
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
