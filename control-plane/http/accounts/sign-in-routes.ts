import type { FastifyInstance } from "fastify";
import { Type } from "typebox";
import { unixSeconds } from "../../../proto/unix-seconds.ts";
import { loginIdForm } from "../../accounts/cli-login.ts";
import type { Session } from "../../accounts/sessions.ts";
import { actorOf, originOf } from "../core/act-of.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { restarting } from "../errors/errors.ts";
import type { AccountFeatures } from "./features.ts";
import { linkPath } from "./login-pages.ts";
import { checkOrigin, cookieOf, giveCookies, ownSession, takeCookie, visitorOf } from "./session.ts";
import {
  AuthSession,
  MailedReset,
  MailedTicket,
  NewCredentials,
  NewCustomer,
  NewPasswordByLink,
  PasskeyStarted,
  PasswordChange,
  SecondFactorProof,
  SignInAnswer,
  SignInLink,
  SignInRequest,
} from "./sign-in-schemas.ts";

export function addSignInRoutes(
  endpoints: Endpoints,
  { signIn, sessions, accountMails, publicUrl }: AccountFeatures,
): void {
  const open = endpoints.with({ tag: "account", access: "public", isAttempt: true, holdsSecrets: true });
  const own = endpoints.with({ tag: "account", access: "key" });

  open.post("/v1/auth/sign-up", {
    summary: "Create an account, if the operator allows it, and sign in",
    body: NewCredentials,
    answer: NewCustomer,
    refusals: [403, 409, 429],
    async handler({ body, reply }) {
      const { request } = reply;
      checkOrigin(request);
      const { email, password, display_name: displayName } = body;
      const made = await signIn.signUp({ email, password, displayName }, visitorOf(request, publicUrl));
      giveCookies(reply, made);
      return { uid: made.account, api_key: made.apiKey, csrf_token: made.session.csrfToken };
    },
  });

  open.post("/v1/auth/sign-in", {
    summary: "Sign in by e-mail address and password; sets the cookie `session`, or requires the second factor",
    body: SignInRequest,
    answer: SignInAnswer,
    refusals: [401, 403, 429],
    async handler({ body, reply }) {
      const { request } = reply;
      checkOrigin(request);
      const step = await signIn.signIn(body, visitorOf(request, publicUrl));
      if (step.is === "signed_in") {
        giveCookies(reply, step);
        return { ...rendered(step.session), second_factor: null };
      }
      const { ticket, expiresAtMs, methods, passkey } = step;
      return { second_factor: { ticket, expires_at: unixSeconds(expiresAtMs), methods: [...methods], passkey } };
    },
  });

  open.post("/v1/auth/passkey", {
    summary: "Start a sign-in with only a passkey; POST /v1/auth/second-factor finishes it",
    answer: PasskeyStarted,
    refusals: [403, 409, 429],
    async handler({ reply }) {
      checkOrigin(reply.request);
      const { ticket, expiresAtMs, options } = await signIn.startPasskey(visitorOf(reply.request, publicUrl));
      return { ticket, expires_at: unixSeconds(expiresAtMs), passkey: options };
    },
  });

  open.post("/v1/auth/second-factor", {
    summary: "Finish a sign-in by a code or a passkey; sets the cookie `session`",
    body: SecondFactorProof,
    answer: AuthSession,
    refusals: [401, 403, 409, 429],
    async handler({ body, reply }) {
      const { request } = reply;
      checkOrigin(request);
      const proof = { ticket: body.ticket, code: body.code ?? undefined, passkey: body.passkey ?? undefined };
      const done = await signIn.finish(proof, visitorOf(request, publicUrl));
      giveCookies(reply, done);
      return rendered(done.session);
    },
  });

  open.post("/v1/auth/reset-password", {
    summary: "Mail a link that sets a new password, if an account has this address",
    body: MailedReset,
    refusals: [403, 409, 429],
    async handler({ body, reply }) {
      checkOrigin(reply.request);
      await accountMails.requestReset(body.email, reply.request.ip);
    },
  });

  open.post("/v1/auth/new-password", {
    summary: "Set a new password by the ticket of a mailed link; ends all sessions of the account",
    body: NewPasswordByLink,
    refusals: [401, 403, 429],
    async handler({ body, reply }) {
      checkOrigin(reply.request);
      await accountMails.reset(body.ticket, body.password, reply.request.ip);
    },
  });

  open.post("/v1/auth/verify-email", {
    summary: "Verify an e-mail address by the ticket of a mailed link",
    body: MailedTicket,
    refusals: [401, 403, 429],
    async handler({ body, reply }) {
      checkOrigin(reply.request);
      await accountMails.verify(body.ticket, reply.request.ip);
    },
  });

  own.post("/v1/auth/sign-in-link", {
    right: "changeSignIn",
    summary:
      "Create a link that signs in once, without a password, within 15 minutes; not for accounts with a second factor",
    needsRecentSignIn: true,
    holdsSecrets: true,
    answer: SignInLink,
    refusals: [404],
    async handler({ caller, reply }) {
      const { ticket, expiresAtMs } = await signIn.createLink(actorOf(caller, reply));
      const url = `${originOf(publicUrl, reply.request)}${linkPath(ticket)}`;
      return { url, expires_at: unixSeconds(expiresAtMs) };
    },
  });

  own.get("/v1/auth/session", {
    right: "readSignIn",
    summary: "Get the session of this cookie, with the token that its writes require",
    isForEnrolling: true,
    holdsSecrets: true,
    answer: AuthSession,
    refusals: [404],
    handler: ({ reply }) => rendered(ownSession(reply)),
  });

  own.post("/v1/auth/sign-out", {
    right: "changeSignIn",
    summary: "End the session of this cookie",
    isForEnrolling: true,
    refusals: [404],
    async handler({ reply }) {
      ownSession(reply);
      await sessions.end(cookieOf(reply.request) ?? "", reply.request.ip);
      takeCookie(reply);
    },
  });

  own.post("/v1/me/password", {
    right: "changeSignIn",
    summary: "Set the password; ends every other session. An API key may do so while the account has no second factor",
    needsRecentSignIn: true,
    body: PasswordChange,
    refusals: [404, 429],
    async handler({ caller, body, reply }) {
      const request = { password: body.password, current: body.current_password ?? undefined };
      await signIn.setPassword(actorOf(caller, reply), request, reply.request.state?.session);
    },
  });
}

const rendered = ({ caller, csrfToken, endsAtMs, authTimeMs, factors, mustEnrol }: Session) => ({
  uid: caller.account,
  csrf_token: csrfToken,
  expires_at: unixSeconds(endsAtMs),
  auth_time: unixSeconds(authTimeMs),
  factors: [...factors],
  must_enrol: mustEnrol,
});

export function addCliLoginRoutes(endpoints: Endpoints, app: FastifyInstance, { cliLogins }: AccountFeatures): void {
  const open = endpoints.with({ tag: "account", access: "public" });

  // A wait of minutes must not delay shutdown.
  const closing = new AbortController();
  app.addHook("preClose", async () => closing.abort());

  open.get("/github/cli/login", {
    summary: "Wait until a person confirms this login at /login?cli=<login_id>; returns a key once",
    holdsSecrets: true,
    query: Type.Object({
      login_id: Type.String({ maxLength: 32, pattern: loginIdForm, description: "32 random characters" }),
    }),
    answer: Type.Object({ access_token: Type.String() }),
    refusals: [404, 408, 429],
    async handler({ query, reply }) {
      const gone = new AbortController();
      reply.raw.once("close", () => gone.abort());
      const signal = AbortSignal.any([gone.signal, closing.signal]);
      const key = await cliLogins.wait(query.login_id, reply.request.ip, signal);
      if (key !== undefined) return { access_token: key };
      throw restarting();
    },
  });
}
