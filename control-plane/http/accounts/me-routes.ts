import type { FastifyReply } from "fastify";
import { Type } from "typebox";
import { steadyTime } from "../../../proto/steady-time.ts";
import { unixSeconds } from "../../../proto/unix-seconds.ts";
import type { AccountRecord } from "../../accounts/account-record.ts";
import type { Caller } from "../../accounts/caller.ts";
import { sessionRequired } from "../../accounts/factor-errors.ts";
import { holds, roleRefusal } from "../../accounts/permissions.ts";
import { checkRecentSignIn, sessionIdOf } from "../../accounts/sessions.ts";
import type { ProfileChange, SessionRecord } from "../../accounts/store.ts";
import { actorOf } from "../core/act-of.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { givenFields, wireRecord } from "../core/wire-record.ts";
import { nullable } from "../inference/sampling-schemas.ts";
import type { Checklist } from "../money/payment-routes.ts";
import { readChecklist, SuspendReasonOrNull } from "../money/payment-routes.ts";
import { AccountBody, AccountChange, TeamName } from "./account-schemas.ts";
import type { AccountFeatures } from "./features.ts";
import { takeCookie } from "./session.ts";

export function addMeRoutes(endpoints: Endpoints, deps: AccountFeatures): void {
  const own = endpoints.with({ tag: "account", access: "key" });
  const { profiles, accountMails, checklists, deleteAccount, factors, sessions } = deps;

  /** Throws sessionRequired for an API key of an account with a second factor: a stolen key must not take the account over. */
  async function checkOwner({ account, member }: Caller, { request }: FastifyReply): Promise<void> {
    if (request.state?.session) return;
    if ((await factors.overview(member?.person ?? account)).factors.length > 0) throw sessionRequired();
  }

  own.get("/v1/me", {
    right: "readAccount",
    isOpenToOperators: true,
    summary: "Get the account of this key",
    isForEnrolling: true,
    query: Type.Object({
      checklist: Type.Optional(Type.Boolean({ default: false, description: "null without the right readMoney" })),
    }),
    answer: AccountBody,
    refusals: [404],
    async handler({ caller, query }) {
      const record = await profiles.read(caller.account);
      const checklist =
        query.checklist === true && holds("readMoney", caller) ? await readChecklist(checklists, caller) : null;
      return renderAccount(record, checklist, caller);
    },
  });

  own.get("/v1/me/suspension", {
    right: "readAccount",
    isOpenToOperators: true,
    summary: "Get why requests of the account are refused, without its amounts",
    answer: Type.Object({ suspend_reason: SuspendReasonOrNull }),
    refusals: [404],
    async handler({ caller }) {
      const { suspend_reason } = await readChecklist(checklists, caller);
      return { suspend_reason };
    },
  });

  own.patch("/v1/me", {
    right: "manageAccount",
    summary: "Change the profile",
    body: AccountChange,
    answer: AccountBody,
    refusals: [404, 409, 429],
    async handler({ caller, body, reply }) {
      // People sign in with the address, so changing it requires the same proof as changing the password.
      if (typeof body.email === "string") {
        const refusal = roleRefusal("changeSignIn", caller);
        if (refusal) throw refusal;
        checkRecentSignIn(reply.request.state?.session, steadyTime.nowMs());
        await checkOwner(caller, reply);
      }
      const record = await profiles.change(actorOf(caller, reply), givenFields<ProfileChange>(body));
      return renderAccount(record, null, caller);
    },
  });

  own.delete("/v1/me", {
    right: "closeAccount",
    summary: "Delete the account with its keys, sessions and deployments; ledger and usage stay",
    needsRecentSignIn: true,
    answer: AccountBody,
    refusals: [404, 409],
    async handler({ caller, reply }) {
      await checkOwner(caller, reply);
      const record = await deleteAccount(actorOf(caller, reply));
      if (caller.via === "session" && !caller.member) takeCookie(reply);
      return renderAccount(record, null, caller);
    },
  });

  own.get("/v1/me/emails", {
    right: "readAccount",
    summary: "List the account's verified e-mail addresses",
    answer: Type.Object({ emails: Type.Array(Type.String()) }),
    refusals: [404],
    handler: async ({ caller }) => ({ emails: await profiles.emails(caller.account) }),
  });

  own.get("/v1/me/sessions", {
    right: "readSignIn",
    summary: "List the account's browser sessions, the last used first",
    answer: Type.Object({ sessions: Type.Array(SessionBody) }),
    async handler({ caller, reply }) {
      const { session } = reply.request.state ?? {};
      const current = session && sessionIdOf(session);
      return { sessions: (await sessions.list(caller.account)).map((one) => renderSession(one, current)) };
    },
  });

  own.delete("/v1/me/sessions/:id", {
    right: "changeSignIn",
    summary: "End a browser session of the account at once",
    refusals: [404],
    handler: ({ caller, params, reply }) => sessions.revoke(actorOf(caller, reply), params.id),
  });

  own.post("/v1/me/verify-email", {
    right: "changeSignIn",
    summary: "Mail a link that verifies the account's address",
    refusals: [404, 409, 429],
    handler: ({ caller }) => accountMails.requestVerification(caller.account),
  });

  own.post("/v1/me/team_display_name", {
    right: "manageAccount",
    summary: "Name the team of a team account",
    body: TeamName,
    answer: AccountBody,
    refusals: [404, 409],
    handler: async ({ caller, body, reply }) =>
      renderAccount(await profiles.nameTeam(actorOf(caller, reply), body.display_name), null, caller),
  });
}

const SessionBody = Type.Object({
  id: Type.String(),
  created_at: Type.Integer({ description: "Unix seconds of the sign-in" }),
  last_used_at: Type.Integer({ description: "Unix seconds, up to an hour late" }),
  expires_at: Type.Integer({ description: "Unix seconds at which it ends if it is not used" }),
  factors: Type.Array(Type.String(), { description: "How its owner signed in, such as password and totp" }),
  ip: nullable.string({ description: "Address that signed in" }),
  user_agent: nullable.string({ description: "Browser that signed in, as it names itself" }),
  current: Type.Boolean({ description: "The session that sent this request" }),
});

const renderSession = (one: SessionRecord, current: string | undefined) => ({
  id: one.id,
  created_at: unixSeconds(one.beganAtMs),
  last_used_at: unixSeconds(one.seenAtMs),
  expires_at: unixSeconds(one.endsAtMs),
  factors: [...one.factors],
  ip: one.ip,
  user_agent: one.userAgent,
  current: one.id === current,
});

/** In an organisation the fields of the team name the role of the caller, and `root_uid` the person. */
function renderAccount(record: AccountRecord, checklist: Checklist | null, { member }: Caller): AccountBody {
  const team = member && { isTeamOwner: member.role === "owner", teamRole: member.role };
  const root = member?.person ? { rootUid: member.person } : {};
  return wireRecord(AccountBody, { ...record, ...team, ...root }, { checklist });
}
