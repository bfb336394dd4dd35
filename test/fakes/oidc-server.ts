// A real OpenID provider (oidc-provider) on localhost. The person who signs in is chosen by the test; the token response can be
// changed, signed with the provider's own key, as a compromised or faulty provider would do.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { exportJWK, generateKeyPair, importJWK, type JWTPayload, SignJWT, UnsecuredJWT } from "jose";
import type { Configuration } from "oidc-provider";

export interface Person {
  readonly sub: string;
  readonly [claim: string]: unknown;
}

export interface OidcServer {
  readonly issuer: string;
  readonly client: { readonly id: string; readonly secret: string };
  /** Who signs in next. */
  person: Person;
  /** Unix ms at which that person signed in at the provider in an open browser; undefined: now. A prompt for a sign-in makes it now. */
  signedInAtMs: number | undefined;
  /** False: as providers that ignore `max_age`. */
  sendsAuthTime: boolean;
  /** Changes the ID token of the next token response; undefined: unchanged. */
  tamper: ((claims: JWTPayload, sign: Sign) => Promise<string>) | undefined;
  /** Requests by path. */
  readonly asked: string[];
  /** Signs claims as this provider does. */
  sign: Sign["signed"];
  close(): Promise<void>;
}

interface Sign {
  signed(claims: JWTPayload): Promise<string>;
  unsigned(claims: JWTPayload): Promise<string>;
  byOther(claims: JWTPayload): Promise<string>;
}

/**
 * RSA keys of this process, each made at its first use: one takes 50 ms of processor time. Providers share them in turn, so that
 * providers of one test have different keys.
 */
const keyPairs: ReturnType<typeof makeKeys>[] = [];
const makeKeys = () => generateKeyPair("RS256", { extractable: true });
const keysAt = (index: number) => (keyPairs[index] ??= makeKeys());
const sharedKeyCount = 4;
const strangersKeys = sharedKeyCount;
let startedCount = 0;

/** `redirectUris`: of the control plane; known only after it has listed the provider, so they may be added later. */
export async function startOidcServer(
  redirectUris: readonly string[] = [],
): Promise<OidcServer & { allow(uri: string): void }> {
  const { default: Provider } = await import("oidc-provider");
  const { privateKey } = await keysAt(startedCount++ % sharedKeyCount);
  const jwk = { ...(await exportJWK(privateKey)), kid: "key-1", alg: "RS256", use: "sig" };
  const key = await importJWK(jwk, "RS256");
  const header = { alg: "RS256", kid: "key-1" } as const;
  const sign: Sign = {
    signed: (claims) => new SignJWT(claims).setProtectedHeader(header).sign(key),
    unsigned: async (claims) => new UnsecuredJWT(claims).encode(),
    async byOther(claims) {
      const { privateKey: other } = await keysAt(strangersKeys);
      return new SignJWT(claims).setProtectedHeader(header).sign(other);
    },
  };
  const allowed = new Set(redirectUris);
  const client = { id: "stoker", secret: "secret-of-the-client-which-is-long" };
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

  const self: OidcServer & { allow(uri: string): void } = {
    issuer,
    client,
    person: { sub: "sub-of-ada", email: "ada@example.com", email_verified: true },
    signedInAtMs: undefined,
    sendsAuthTime: true,
    tamper: undefined,
    asked: [],
    sign: sign.signed,
    allow: (uri) => allowed.add(uri),
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };

  const configuration: Configuration = {
    clients: [
      {
        client_id: client.id,
        client_secret: client.secret,
        redirect_uris: ["http://127.0.0.1/none"],
        grant_types: ["authorization_code"],
        response_types: ["code"],
        require_auth_time: true,
      },
    ],
    jwks: { keys: [jwk] },
    cookies: { keys: ["cookie-key"] },
    features: { devInteractions: { enabled: false } },
    conformIdTokenClaims: false,
    claims: {
      openid: ["sub"],
      email: ["email", "email_verified"],
      profile: ["name", "preferred_username", "groups"],
    },
    interactions: { url: (_context, interaction) => `/interaction/${interaction.uid}` },
    findAccount: (_context, sub) => ({ accountId: sub, claims: async () => ({ ...self.person, sub }) }),
    async loadExistingGrant(context) {
      const { client: asking, session, provider } = context.oidc;
      const grant = new provider.Grant({ clientId: asking?.clientId ?? "", accountId: session?.accountId ?? "" });
      grant.addOIDCScope("openid email profile");
      await grant.save();
      return grant;
    },
  };
  const provider = new Provider(issuer, configuration);
  // The redirect URIs of a control plane contain the id that it gives the provider.
  const { Client } = provider;
  Client.prototype.redirectUriAllowed = (uri: string) => allowed.has(uri);
  const answer = provider.callback();

  server.on("request", (request: IncomingMessage, response: ServerResponse) => {
    const path = new URL(request.url ?? "/", issuer).pathname;
    self.asked.push(path);
    if (path.startsWith("/interaction/")) {
      void provider.interactionDetails(request, response).then(({ prompt }) => {
        const isAsked = prompt.reasons.some((reason) => reason !== "no_session");
        const ts = Math.floor((isAsked ? Date.now() : (self.signedInAtMs ?? Date.now())) / 1000);
        const result = { login: { accountId: self.person.sub, remember: false, ts } };
        return provider.interactionFinished(request, response, result, { mergeWithLastSubmission: false });
      });
      return;
    }
    const withoutTime: OidcServer["tamper"] = ({ auth_time: _, ...claims }, { signed }) => signed(claims);
    const tamper = self.tamper ?? (self.sendsAuthTime ? undefined : withoutTime);
    if (path === "/token" && tamper) {
      self.tamper = undefined;
      rewriteTokens(response, (claims) => tamper(claims, sign));
    }
    void answer(request, response);
  });
  return self;
}

/** Replaces the ID token in the JSON that the provider is about to send. */
function rewriteTokens(response: ServerResponse, change: (claims: JWTPayload) => Promise<string>): void {
  const end = response.end.bind(response);
  response.end = ((body?: unknown) => {
    const text = String(body ?? "{}");
    const tokens = JSON.parse(text) as { id_token?: string };
    if (tokens.id_token === undefined) return end(text);
    const claims = JSON.parse(Buffer.from(tokens.id_token.split(".")[1] ?? "", "base64url").toString());
    void change(claims).then((idToken) => {
      const changed = JSON.stringify({ ...tokens, id_token: idToken });
      response.setHeader("content-length", Buffer.byteLength(changed));
      end(changed);
    });
    return response;
  }) as typeof response.end;
}
