// /login: the browser's side of sign-in and of a command line's login. Forms, not JSON: the parts of this file stand in a
// context of their own, because elsewhere curl's default Content-Type of forms means JSON.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { Type } from "typebox";
import { loginIdForm } from "../../accounts/cli-login.ts";
import type { Session } from "../../accounts/sessions.ts";
import { actorOf } from "../act-of.ts";
import type { Endpoints } from "../endpoint.ts";
import { CsrfRefused } from "../errors.ts";
import { refusalOf } from "../render-error.ts";
import { checkOrigin, cookieOf, giveCookie, takeCookie } from "../session.ts";
import type { HttpDeps } from "../verbs.ts";
import { confirmedPage, confirmPage, pagePolicy, signedInPage, signInPage, type Visit } from "./login-pages.ts";

type Deps = Pick<HttpDeps, "signIn" | "sessions" | "cliLogins">;

const formLimitBytes = 16 * 1024;
const loginId = new RegExp(loginIdForm);

export function addLoginPages(endpoints: Endpoints, app: FastifyInstance, deps: Deps): void {
  const { signIn, sessions, cliLogins } = deps;
  app.addContentTypeParser(
    "application/x-www-form-urlencoded",
    { parseAs: "string", bodyLimit: formLimitBytes },
    (_request, body, done) => done(null, Object.fromEntries(new URLSearchParams(String(body)))),
  );

  const add = (
    method: "GET" | "POST",
    path: string,
    summary: string,
    answer: (request: FastifyRequest, reply: FastifyReply) => Promise<unknown>,
  ) =>
    endpoints.addRaw(
      { method, path, summary, tag: "service", access: "public", answer: Type.String(), isHidden: true },
      (request, reply) => answer(request, reply),
    );
  const sessionOf = async (request: FastifyRequest): Promise<Session | undefined> => {
    const cookie = cookieOf(request.headers);
    return cookie === undefined ? undefined : sessions.find(cookie);
  };
  const show = (reply: FastifyReply, session: Session | undefined, visit: Visit): FastifyReply => {
    if (!session) return send(reply, signInPage(visit));
    const signedIn = { ...visit, displayName: session.caller.displayName, csrfToken: session.csrfToken };
    return send(reply, visit.loginId === undefined ? signedInPage(signedIn) : confirmPage(signedIn));
  };
  /** The same page again, with the reason in words. */
  const showAgain = async (request: FastifyRequest, reply: FastifyReply, visit: Visit, error: unknown) => {
    const refusal = refusalOf(error);
    if (request.state) request.state.refusal = refusal;
    const session = await sessionOf(request).catch(() => undefined);
    reply.code(refusal.status);
    if (refusal.retryAfterSeconds !== undefined)
      reply.header("retry-after", String(Math.ceil(refusal.retryAfterSeconds)));
    return show(reply, session, { ...visit, refusal: refusal.message });
  };
  /** Throws CsrfRefused. */
  const signedIn = async (request: FastifyRequest): Promise<Session | undefined> => {
    checkOrigin(request);
    const session = await sessionOf(request);
    if (session && !sessions.hasCsrfToken(session, field(request.body, "csrf")))
      throw new CsrfRefused("The form is of another session.");
    return session;
  };

  add("GET", "/login", "Stoker's own sign-in page", async (request, reply) =>
    show(reply, await sessionOf(request), { loginId: loginIdOf(request.query) }),
  );

  add("POST", "/login", "Sign in by the page's form", async (request, reply) => {
    const visit = { loginId: loginIdOf(request.body), email: field(request.body, "email").slice(0, 320) };
    try {
      checkOrigin(request);
      const credentials = { email: visit.email, password: field(request.body, "password").slice(0, 1024) };
      giveCookie(reply, await signIn.signIn(credentials, request.ip, cookieOf(request.headers)));
    } catch (error) {
      return showAgain(request, reply, visit, error);
    }
    return reply.redirect(visit.loginId === undefined ? "/login" : `/login?cli=${visit.loginId}`, 303);
  });

  add("POST", "/login/confirm", "Give the command line that waits a key", async (request, reply) => {
    const visit = { loginId: loginIdOf(request.body) };
    try {
      const session = await signedIn(request);
      if (!session || visit.loginId === undefined) return show(reply, session, visit);
      await cliLogins.approve(actorOf(session.caller, reply), visit.loginId);
    } catch (error) {
      return showAgain(request, reply, visit, error);
    }
    return send(reply, confirmedPage());
  });

  add("POST", "/login/sign-out", "End the session by the page's form", async (request, reply) => {
    try {
      if (await signedIn(request)) await sessions.end(cookieOf(request.headers) ?? "");
    } catch (error) {
      return showAgain(request, reply, { loginId: undefined }, error);
    }
    takeCookie(reply);
    return reply.redirect("/login", 303);
  });
}

function send(reply: FastifyReply, page: string): FastifyReply {
  return reply
    .type("text/html; charset=utf-8")
    .headers({
      "content-security-policy": pagePolicy,
      "x-content-type-options": "nosniff",
      "x-frame-options": "DENY",
      "cache-control": "no-store",
      // Not no-referrer: a browser would then send its forms with the Origin "null", and they could not be told from others'.
      "referrer-policy": "same-origin",
    })
    .serializer(String)
    .send(page);
}

/** A text of a form or a query; empty where there is none. */
function field(of: unknown, name: string): string {
  const value = (of as Record<string, unknown> | null | undefined)?.[name];
  return typeof value === "string" ? value.replaceAll("\0", "") : "";
}

function loginIdOf(of: unknown): string | undefined {
  const value = field(of, "cli");
  return loginId.test(value) ? value : undefined;
}
