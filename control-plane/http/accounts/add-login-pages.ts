// /login: pages for sign-in and for the login of a command line. They use forms and therefore their own Fastify context: elsewhere
// the form Content-Type, which is curl's default, means JSON.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { Type } from "typebox";
import type { AccountId } from "../../../proto/ids.ts";
import { steadyTime } from "../../../proto/steady-time.ts";
import type { Caller } from "../../accounts/caller.ts";
import { loginIdForm } from "../../accounts/cli-login.ts";
import { notAMember } from "../../accounts/errors.ts";
import { secondFactorRequired } from "../../accounts/factor-errors.ts";
import { roleRefusal } from "../../accounts/permissions.ts";
import { checkRecentSignIn, type Session } from "../../accounts/sessions.ts";
import { startPath } from "../../identity/providers.ts";
import { returnPath } from "../../identity/return-path.ts";
import { actorOf } from "../core/act-of.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { csrfRefused } from "../errors/errors.ts";
import { refusalOf } from "../errors/render-error.ts";
import type { IdentityFeatures } from "../identity/features.ts";
import { giveProviderCookie, providerCookieOf } from "../identity/provider-cookie.ts";
import { providerOrigin } from "../identity/provider-routes.ts";
import { addMailPages } from "./add-mail-pages.ts";
import type { AccountFeatures } from "./features.ts";
import {
  confirmedPage,
  confirmPage,
  enrolPage,
  linkPage,
  loginPath,
  newPasswordPage,
  type SignedIn,
  secondFactorPage,
  signedInPage,
  signInPage,
  type Visit,
} from "./login-pages.ts";
import { type AddPage, field, send } from "./page-replies.ts";
import { checkNavigation, checkOrigin, cookieOf, giveCookies, takeCookie, visitorOf } from "./session.ts";

const formLimitBytes = 16 * 1024;
const loginId = new RegExp(loginIdForm);

type PageFeatures = AccountFeatures & IdentityFeatures;

export function addLoginPages(endpoints: Endpoints, app: FastifyInstance, deps: PageFeatures): void {
  app.addContentTypeParser(
    "application/x-www-form-urlencoded",
    { parseAs: "string", bodyLimit: formLimitBytes },
    (_request, body, done) => done(null, Object.fromEntries(new URLSearchParams(String(body)))),
  );
  const pages = new LoginPages(deps);
  const add: AddPage = (method, path, summary, answer, { isAttempt = false } = {}) =>
    endpoints.addRaw(
      {
        method,
        path,
        summary,
        tag: "service",
        access: "public",
        answer: Type.String(),
        isHidden: true,
        isAttempt,
      },
      (request, reply) => answer(request, reply),
    );
  add("GET", "/login", "Stoker's own sign-in page", (request, reply) => pages.signIn(request, reply));
  // Forms that check a secret.
  const attempt = { isAttempt: true };
  const checkPassword = (request: FastifyRequest, reply: FastifyReply) => pages.checkPassword(request, reply);
  const checkCode = (request: FastifyRequest, reply: FastifyReply) => pages.checkCode(request, reply);
  const useLink = (request: FastifyRequest, reply: FastifyReply) => pages.useLink(request, reply);
  add("POST", "/login", "Sign in by the page's form", checkPassword, attempt);
  add("POST", "/login/second-factor", "Finish the sign-in by a code", checkCode, attempt);
  add("GET", "/login/link", "Page of a sign-in link", (request, reply) => pages.showLink(request, reply));
  add("POST", "/login/link", "Sign in by a link", useLink, attempt);
  add("GET", "/login/password", "Page that offers a first password", (request, reply) =>
    pages.offerPassword(request, reply),
  );
  add("POST", "/login/password", "Set the first password", (request, reply) => pages.setPassword(request, reply));
  add("POST", "/login/confirm", "Give the command line that waits a key", (request, reply) =>
    pages.confirm(request, reply),
  );
  add("POST", "/login/sign-out", "End the session by the page's form", (request, reply) =>
    pages.signOut(request, reply),
  );
  add("GET", "/v1/auth/oidc/:id/start", "Send the browser to an identity provider", (request, reply) =>
    pages.startProvider(request, reply),
  );
  add("GET", "/v1/auth/oidc/:id/callback", "Sign in by the reply of an identity provider", (request, reply) =>
    pages.arrive(request, reply),
  );
  addMailPages(add, deps);
}

class LoginPages {
  readonly #deps: PageFeatures;

  constructor(deps: PageFeatures) {
    this.#deps = deps;
  }

  async signIn(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const visit = { loginId: loginIdOf(request.query) };
    const session = await this.#sessionOf(request);
    if (visit.loginId === undefined) return this.#show(reply, session, visit);
    try {
      // This creates a key, so a browser left open must not suffice.
      checkRecentSignIn(session, steadyTime.nowMs());
    } catch (error) {
      return this.#show(reply, undefined, { ...visit, refusal: refusalOf(error).message });
    }
    return this.#show(reply, session, visit);
  }

  async checkPassword(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { signIn, publicUrl } = this.#deps;
    const visit = { loginId: loginIdOf(request.body), email: field(request.body, "email").slice(0, 320) };
    try {
      checkOrigin(request);
      const credentials = { email: visit.email, password: field(request.body, "password").slice(0, 1024) };
      const step = await signIn.signIn(credentials, visitorOf(request, publicUrl));
      if (step.is === "second_factor") return send(reply, secondFactorPage({ ...visit, ...step }));
      giveCookies(reply, step);
    } catch (error) {
      // Also with a valid older session: its owner has just tried to sign in again.
      return this.#showAgain(request, reply, visit, error);
    }
    return reply.redirect(loginPath(visit.loginId), 303);
  }

  async checkCode(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { signIn, publicUrl } = this.#deps;
    const given = field(request.body, "return_to");
    const visit = { loginId: loginIdOf(request.body), returnTo: given === "" ? undefined : returnPath(given) };
    const ticket = field(request.body, "ticket").slice(0, 64);
    try {
      checkOrigin(request);
      const proof = { ticket, code: field(request.body, "code").slice(0, 64), passkey: undefined };
      giveCookies(reply, await signIn.finish(proof, visitorOf(request, publicUrl)));
    } catch (error) {
      const refusal = refusalOf(error);
      if (refusal.code !== "wrong_second_factor") return this.#showAgain(request, reply, visit, error);
      if (request.state) request.state.refusal = refusal;
      // The password was correct: ask only for the code again.
      const page = secondFactorPage({ ...visit, ticket, methods: [], refusal: refusal.message });
      return send(reply.code(refusal.status), page);
    }
    return reply.redirect(visit.returnTo ?? loginPath(visit.loginId), 303);
  }

  async showLink(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    return send(reply, linkPage(field(request.query, "ticket").slice(0, 64)));
  }

  async useLink(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { signIn, publicUrl } = this.#deps;
    try {
      checkOrigin(request);
      const done = await signIn.useLink(field(request.body, "ticket").slice(0, 64), visitorOf(request, publicUrl));
      giveCookies(reply, done);
      return reply.redirect(done.hasPassword ? "/console" : "/login/password", 303);
    } catch (error) {
      return this.#showAgain(request, reply, { loginId: undefined }, error);
    }
  }

  async offerPassword(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const session = await this.#sessionOf(request);
    if (!session) return reply.redirect("/login", 303);
    return send(reply, newPasswordPage({ email: session.caller.email, csrfToken: session.csrfToken }));
  }

  /** An account that has a password changes it in the console, which sends the current one. */
  async setPassword(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    let session: Session | undefined;
    try {
      session = await this.#signedIn(request);
      if (!session) return reply.redirect("/login", 303);
      checkRecentSignIn(session, steadyTime.nowMs());
      const password = field(request.body, "password").slice(0, 1024);
      await this.#deps.signIn.setPassword(actorOf(session.caller, reply), { password, current: undefined }, session);
    } catch (error) {
      if (!session) return this.#showAgain(request, reply, { loginId: undefined }, error);
      const refusal = refusalOf(error);
      if (request.state) request.state.refusal = refusal;
      const { caller, csrfToken } = session;
      return send(
        reply.code(refusal.status),
        newPasswordPage({ email: caller.email, csrfToken, refusal: refusal.message }),
      );
    }
    return reply.redirect("/console", 303);
  }

  async confirm(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const visit = { loginId: loginIdOf(request.body) };
    try {
      const session = await this.#signedIn(request);
      if (!session || visit.loginId === undefined) return await this.#show(reply, session, visit);
      if (session.mustEnrol) throw secondFactorRequired();
      checkRecentSignIn(session, steadyTime.nowMs());
      const caller = await this.#callerFor(session, field(request.body, "account").slice(0, 64));
      await this.#deps.cliLogins.approve(actorOf(caller, reply), visit.loginId, caller.member?.id);
    } catch (error) {
      return this.#showAgain(request, reply, visit, error);
    }
    return send(reply, confirmedPage());
  }

  /** The person, or the person in the organisation that they chose. Throws notAMember, and that they may have no keys there. */
  async #callerFor({ caller }: Session, chosen: string): Promise<Caller> {
    if (chosen === "" || chosen === caller.account) return caller;
    const member = await this.#deps.members.actAs(caller, chosen as AccountId);
    if (!member) throw notAMember();
    const refusal = roleRefusal("ownKeys", member);
    if (refusal) throw refusal;
    return member;
  }

  async signOut(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    try {
      if (await this.#signedIn(request)) await this.#deps.sessions.end(cookieOf(request) ?? "", request.ip);
    } catch (error) {
      return this.#showAgain(request, reply, { loginId: undefined }, error);
    }
    takeCookie(reply);
    return reply.redirect("/login", 303);
  }

  async #sessionOf(request: FastifyRequest): Promise<Session | undefined> {
    const cookie = cookieOf(request);
    return cookie === undefined ? undefined : this.#deps.sessions.find(cookie);
  }

  /** Returns the session that sent the form. Throws csrfRefused. */
  async #signedIn(request: FastifyRequest): Promise<Session | undefined> {
    checkOrigin(request);
    const session = await this.#sessionOf(request);
    if (session && !this.#deps.sessions.hasCsrfToken(session, field(request.body, "csrf")))
      throw csrfRefused("The form belongs to another session.");
    return session;
  }

  /** Shows the page again with the error. */
  async #showAgain(request: FastifyRequest, reply: FastifyReply, visit: Visit, error: unknown): Promise<FastifyReply> {
    const refusal = refusalOf(error);
    if (request.state) request.state.refusal = refusal;
    const session = await this.#sessionOf(request).catch(() => undefined);
    reply.code(refusal.status);
    if (refusal.retryAfterSeconds !== undefined)
      reply.header("retry-after", String(Math.ceil(refusal.retryAfterSeconds)));
    return this.#show(reply, session, { ...visit, refusal: refusal.message });
  }

  /** With the providers from which the visitor may choose. */
  async #show(reply: FastifyReply, session: Session | undefined, visit: Visit): Promise<FastifyReply> {
    if (session) {
      const of = visit.loginId === undefined ? [] : await this.#deps.members.organizations(session.caller.account);
      const organizations = of.map(({ account, displayName, teamDisplayName, role }) => ({
        uid: account,
        name: teamDisplayName ?? displayName,
        role,
      }));
      return show(reply, session, visit, organizations);
    }
    const offered = await this.#deps.identityProviders.offered(visit.email || undefined).catch(() => []);
    const query = new URLSearchParams({ return_to: visit.returnTo ?? loginPath(visit.loginId) });
    // A command line receives a key, so the provider's own session does not suffice.
    if (visit.loginId !== undefined) query.set("fresh", "1");
    const providers = offered.map(({ id, name }) => ({ name, path: `${startPath(id)}?${query}` }));
    return show(reply, undefined, { ...visit, providers });
  }

  async startProvider(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { oidc, publicUrl } = this.#deps;
    try {
      checkNavigation(request);
      const given = (name: string) => field(request.query, name).slice(0, 512) || undefined;
      const options = {
        origin: providerOrigin(publicUrl, request),
        returnTo: given("return_to"),
        cookie: providerCookieOf(request),
        isFresh: given("fresh") === "1",
        email: given("email"),
      };
      const departure = await oidc.start(field(request.params, "id"), options, request.ip);
      giveProviderCookie(reply, departure.cookie);
      return reply.redirect(departure.url, 303);
    } catch (error) {
      return this.#showAgain(request, reply, { loginId: undefined }, error);
    }
  }

  async arrive(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { oidc, publicUrl } = this.#deps;
    try {
      const session = await this.#sessionOf(request);
      const arrival = {
        url: new URL(request.url, providerOrigin(publicUrl, request)),
        cookie: providerCookieOf(request),
        visitor: visitorOf(request, publicUrl),
        session: session && { account: session.caller.account, lookup: session.lookup, factors: session.factors },
      };
      const { step, returnTo } = await oidc.finish(field(request.params, "id"), arrival);
      if (step?.is === "second_factor") {
        const target = Object.fromEntries(new URL(returnTo, arrival.url).searchParams);
        return send(reply, secondFactorPage({ loginId: loginIdOf(target), returnTo, ...step }));
      }
      if (step) giveCookies(reply, step);
      return reply.redirect(returnTo, 303);
    } catch (error) {
      return this.#showAgain(request, reply, { loginId: undefined }, error);
    }
  }
}

function show(
  reply: FastifyReply,
  session: Session | undefined,
  visit: Visit,
  organizations: NonNullable<SignedIn["organizations"]> = [],
): FastifyReply {
  if (!session) return send(reply, signInPage(visit));
  if (session.mustEnrol) return send(reply, enrolPage(visit));
  const signedIn = { ...visit, displayName: session.caller.displayName, csrfToken: session.csrfToken, organizations };
  return send(reply, visit.loginId === undefined ? signedInPage(signedIn) : confirmPage(signedIn));
}

function loginIdOf(of: unknown): string | undefined {
  const value = field(of, "cli");
  return loginId.test(value) ? value : undefined;
}
