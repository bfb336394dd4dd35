import { Type } from "typebox";
import { actorOf } from "../act-of.ts";
import type { Endpoints } from "../endpoint.ts";
import { AuthSession, NewCredentials, NewCustomer, PasswordChange, SignInRequest } from "../schemas/sign-in.ts";
import { checkOrigin, cookieOf, giveCookie, ownSession, takeCookie } from "../session.ts";
import type { HttpDeps } from "../verbs.ts";

const tag = "account";

export function addSignInRoutes(
  endpoints: Endpoints,
  { signIn, sessions }: Pick<HttpDeps, "signIn" | "sessions">,
): void {
  endpoints.add({
    method: "POST",
    path: "/v1/auth/sign-up",
    summary: "Make an account, where the operator lets anybody do so, and sign in to it",
    tag,
    access: "public",
    holdsSecrets: true,
    body: NewCredentials,
    answer: NewCustomer,
    refusals: [403, 409, 429, 503],
    async handler({ body, reply }) {
      checkOrigin(reply.request);
      const { email, password, display_name: displayName } = body;
      const { account, apiKey, session } = await signIn.signUp({ email, password, displayName }, reply.request.ip);
      giveCookie(reply, session);
      return { uid: account, api_key: apiKey, csrf_token: session.csrfToken };
    },
  });

  endpoints.add({
    method: "POST",
    path: "/v1/auth/sign-in",
    summary: "Sign in by e-mail address and password; sets the cookie `session`",
    tag,
    access: "public",
    holdsSecrets: true,
    body: SignInRequest,
    answer: AuthSession,
    refusals: [401, 403, 429, 503],
    async handler({ body, reply }) {
      const { request } = reply;
      checkOrigin(request);
      const session = await signIn.signIn(body, request.ip, cookieOf(request.headers));
      giveCookie(reply, session);
      return rendered(session);
    },
  });

  endpoints.add({
    method: "GET",
    path: "/v1/auth/session",
    summary: "The session of this cookie, with the token its writes need",
    tag,
    access: "key",
    holdsSecrets: true,
    answer: AuthSession,
    refusals: [404, 503],
    handler: ({ reply }) => rendered(ownSession(reply)),
  });

  endpoints.add({
    method: "POST",
    path: "/v1/auth/sign-out",
    summary: "End the session of this cookie",
    tag,
    access: "key",
    answer: Type.Object({}),
    refusals: [404, 503],
    async handler({ reply }) {
      ownSession(reply);
      await sessions.end(cookieOf(reply.request.headers) ?? "");
      takeCookie(reply);
      return {};
    },
  });

  endpoints.add({
    method: "POST",
    path: "/v1/me/password",
    summary: "Set the password; ends every other session. With an API key the present one is not asked for",
    tag,
    access: "key",
    body: PasswordChange,
    answer: Type.Object({}),
    refusals: [404, 429, 503],
    async handler({ caller, body, reply }) {
      const wish = { password: body.password, current: body.current_password ?? undefined };
      await signIn.setPassword(actorOf(caller, reply), wish, reply.request.state?.session);
      return {};
    },
  });
}

interface Rendered {
  readonly caller: { readonly account: string };
  readonly csrfToken: string;
  readonly endsAtMs: number;
}

const rendered = ({ caller, csrfToken, endsAtMs }: Rendered) => ({
  uid: caller.account,
  csrf_token: csrfToken,
  expires_at: Math.floor(endsAtMs / 1000),
});
