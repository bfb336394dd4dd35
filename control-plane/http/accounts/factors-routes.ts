import type { FastifyReply } from "fastify";
import { Type } from "typebox";
import type { AccountId } from "../../../proto/ids.ts";
import { unixSeconds, unixSecondsOrNull } from "../../../proto/unix-seconds.ts";
import { sessionRequired } from "../../accounts/factor-errors.ts";
import type { FactorRecord } from "../../accounts/factor-store.ts";
import type { Session } from "../../accounts/sessions.ts";
import { actOf, actorOf } from "../core/act-of.ts";
import type { Endpoints } from "../core/endpoint.ts";
import type { AccountFeatures } from "./features.ts";
import { relyingPartyOf } from "./session.ts";
import {
  Factor,
  FactorAdded,
  FactorList,
  FactorName,
  FactorProof,
  FactorStart,
  FactorStarted,
  RecoveryCodeList,
  SignInPolicy,
  SignInPolicyChange,
} from "./sign-in-schemas.ts";

export function addFactorRoutes(endpoints: Endpoints, { factors, publicUrl }: AccountFeatures): void {
  const own = endpoints.with({ tag: "account", access: "key", holdsSecrets: true });

  own.get("/v1/me/factors", {
    right: "readSignIn",
    summary: "List the account's second factors",
    isForEnrolling: true,
    answer: FactorList,
    refusals: [404],
    async handler({ caller }) {
      const { factors: list, recoveryCodeCount, hasPassword, isRequired } = await factors.overview(caller.account);
      return {
        factors: list.map(rendered),
        recovery_codes_left: recoveryCodeCount,
        has_password: hasPassword,
        required: isRequired,
      };
    },
  });

  own.post("/v1/me/factors", {
    right: "changeSignIn",
    summary: "Start to set up an authenticator app or a passkey; not with an API key",
    isForEnrolling: true,
    needsRecentSignIn: true,
    body: FactorStart,
    answer: FactorStarted,
    refusals: [404, 409],
    async handler({ caller, body, reply }) {
      const session = browserSession(reply);
      const site = relyingPartyOf(publicUrl, reply.request);
      const { ticket, expiresAtMs, totp, passkey } = await factors.start(
        actorOf(caller, reply),
        body.kind,
        session,
        site,
      );
      return {
        ticket,
        expires_at: unixSeconds(expiresAtMs),
        totp: totp && { secret: totp.secret, uri: totp.uri, qr_svg: totp.qrSvg },
        passkey,
      };
    },
  });

  own.put("/v1/me/factors", {
    right: "changeSignIn",
    summary: "Prove the new second factor; the first one comes with recovery codes and ends every other session",
    isForEnrolling: true,
    needsRecentSignIn: true,
    body: FactorProof,
    answer: FactorAdded,
    refusals: [401, 404, 409],
    async handler({ caller, body, reply }) {
      const session = browserSession(reply);
      const proof = {
        ticket: body.ticket,
        name: body.name,
        code: body.code ?? undefined,
        passkey: body.passkey ?? undefined,
      };
      const site = relyingPartyOf(publicUrl, reply.request);
      const added = await factors.finish(actorOf(caller, reply), proof, session, site);
      return { factor: rendered(added.factor), recovery_codes: added.recoveryCodes && [...added.recoveryCodes] };
    },
  });

  own.patch("/v1/me/factors/:id", {
    right: "changeSignIn",
    summary: "Rename a second factor",
    body: FactorName,
    answer: Factor,
    refusals: [404],
    handler: async ({ caller, params, body, reply }) =>
      rendered(await factors.rename(actorOf(caller, reply), params.id, body.name)),
  });

  own.delete("/v1/me/factors/:id", {
    right: "changeSignIn",
    summary: "Remove a second factor; not with an API key",
    needsRecentSignIn: true,
    refusals: [404],
    async handler({ caller, params, reply }) {
      browserSession(reply);
      await factors.remove(actorOf(caller, reply), params.id);
    },
  });

  own.post("/v1/me/recovery-codes", {
    right: "changeSignIn",
    summary: "Replace the recovery codes; not with an API key",
    needsRecentSignIn: true,
    answer: RecoveryCodeList,
    refusals: [409],
    async handler({ caller, reply }) {
      browserSession(reply);
      return { recovery_codes: [...(await factors.renewRecoveryCodes(actorOf(caller, reply)))] };
    },
  });
  addAdminFactorRoutes(endpoints, factors);
}

function addAdminFactorRoutes(endpoints: Endpoints, factors: AccountFeatures["factors"]): void {
  const admin = endpoints.with({ tag: "operator", access: "admin" });

  admin.get("/v1/admin/sign-in-policy", {
    summary: "Get which accounts must have a second factor",
    answer: SignInPolicy,
    handler: async () => ({ second_factor: await factors.policy() }),
  });

  admin.put("/v1/admin/sign-in-policy", {
    summary: "Require a second factor of no account, operators or all accounts",
    needsRecentSignIn: true,
    body: SignInPolicyChange,
    answer: SignInPolicy,
    async handler({ caller, body, reply }) {
      await factors.setPolicy(body.second_factor, actOf(caller, reply, body.note ?? ""));
      return { second_factor: body.second_factor };
    },
  });

  admin.delete("/v1/admin/accounts/:uid/factors", {
    summary: "Remove all second factors of an account whose owner has lost them, and end its sessions",
    needsRecentSignIn: true,
    answer: Type.Object({ removed: Type.Integer() }),
    refusals: [404],
    handler: async ({ caller, params, reply }) => ({
      removed: await factors.reset(params.uid as AccountId, actOf(caller, reply)),
    }),
  });
}

/** Throws sessionRequired for callers with a key. */
function browserSession({ request }: FastifyReply): Session {
  const session = request.state?.session;
  if (!session) throw sessionRequired();
  return session;
}

const rendered = ({ id, kind, name, createdAtMs, lastUsedAtMs }: FactorRecord) => ({
  id,
  kind,
  name,
  created_at: unixSeconds(createdAtMs),
  last_used_at: unixSecondsOrNull(lastUsedAtMs),
});
