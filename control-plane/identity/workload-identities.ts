// Workload identity: a program proves where it runs by a token of its platform (a CI, Kubernetes) and receives a key for minutes. An
// account's rule says which tokens. The network is used only for a token that claims the issuer and the audience of an existing rule.
import { createHash } from "node:crypto";
import { decodeJwt, decodeProtectedHeader, errors, type JWTPayload, jwtVerify } from "jose";
import { type AccountId, type KeyId, randomId } from "../../proto/ids.ts";
import type { ApiTokens } from "../accounts/api-tokens.ts";
import type { GuessLimits } from "../accounts/guess-limits.ts";
import { noRules } from "../accounts/key-rules.ts";
import { projectNotFound } from "../accounts/projects.ts";
import { type Act, bySystem } from "../act.ts";
import {
  conflict,
  invalid,
  notFound,
  rateLimited,
  ServiceError,
  unauthenticated,
  upstreamFailed,
} from "../service-error.ts";
import { IssuerBusy, type IssuerKeys } from "./issuer-keys.ts";
import type { IssuerFetch } from "./judged-fetch.ts";
import { matchesSubject, patternProblem } from "./subject-pattern.ts";
import type { WorkloadIdentity, WorkloadRule, WorkloadStore } from "./workload-store.ts";

export const workloadLimits = {
  /** Maximum per account. */
  rules: 50,
  /** Valid keys of a rule. */
  live: 100,
  /** Keys of one token: a pod may restart while its token is the same. */
  perToken: 10,
} as const;

const algorithms = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"];
const maxTokenLength = 16_384;
/** A token that lives longer is a password: refused. */
const maxTokenLifeS = 86_400;
const clockToleranceS = 60;

export interface IssuedKey {
  readonly key: string;
  readonly id: KeyId;
  readonly expiresAtMs: number;
  readonly rule: WorkloadIdentity;
}

export interface WorkloadDeps {
  readonly store: WorkloadStore;
  readonly tokens: Pick<ApiTokens, "create" | "revoke">;
  readonly keys: IssuerKeys;
  readonly limits: Pick<GuessLimits, "workload">;
  readonly issuers: Pick<IssuerFetch, "mayName">;
  readonly unixMs: () => number;
}

export function createWorkloadIdentities(deps: WorkloadDeps) {
  const { store, tokens, limits, unixMs } = deps;

  function check({ issuer, subject }: WorkloadRule): void {
    const url = URL.parse(issuer);
    if (!url || !deps.issuers.mayName(issuer) || url.search !== "" || url.username !== "" || issuer.includes("#"))
      throw badRule("issuer", "The issuer must be an https:// URL without user name, query and fragment.");
    const problem = patternProblem(issuer, subject);
    if (problem !== undefined) throw badRule("subject", problem);
  }

  /** Throws workloadRefused, issuerFailed, workloadBusy. */
  async function verified(rule: WorkloadIdentity, token: string): Promise<JWTPayload> {
    const options = {
      issuer: rule.issuer,
      audience: rule.audience,
      algorithms,
      requiredClaims: ["exp", "iat", "sub"],
      clockTolerance: clockToleranceS,
      currentDate: new Date(unixMs()),
    };
    const attempt = async (isStale: boolean) => {
      const keys = await deps.keys.of(rule.account, rule.issuer, isStale).catch((error) => {
        throw error instanceof IssuerBusy ? workloadBusy() : issuerFailed(rule.issuer, error);
      });
      return (await jwtVerify(token, keys, options)).payload;
    };
    try {
      return await attempt(false).catch((error) => {
        // The issuer may have changed its keys.
        if (error instanceof errors.JWKSNoMatchingKey) return attempt(true);
        throw error;
      });
    } catch (error) {
      if (error instanceof errors.JOSEError) throw workloadRefused(error);
      throw error;
    }
  }

  return {
    list: store.list,
    /** Throws workloadNotFound. */
    async get(account: AccountId, id: string): Promise<WorkloadIdentity> {
      const found = await store.get(account, id);
      if (!found) throw workloadNotFound();
      return found;
    },
    /** Throws badRule, workloadConflict, projectNotFound. */
    async create(account: AccountId, rule: WorkloadRule, act: Act): Promise<WorkloadIdentity> {
      check(rule);
      const id = randomId<"workload">(20);
      const outcome = await store.create(account, id, rule, workloadLimits.rules, act);
      if (outcome === "full")
        throw workloadConflict(`An account has at most ${workloadLimits.rules} workload identities.`);
      if (outcome === "name_taken")
        throw workloadConflict("A workload identity with this name exists. Choose another name.");
      if (outcome === "project_gone") throw projectNotFound();
      const made = outcome === "done" && (await store.get(account, id));
      if (!made) throw workloadNotFound();
      return made;
    },
    /** Ends the keys that it made. Throws workloadNotFound. */
    async remove(account: AccountId, id: string, act: Act): Promise<WorkloadIdentity> {
      const removed = await store.remove(account, id, act);
      if (!removed) throw workloadNotFound();
      return removed;
    },

    /** Throws TooManyAttempts, workloadRefused, claimRefused, issuerFailed, workloadBusy, workloadReplayed, tooManyWorkloadKeys. */
    async exchange(id: string, token: string, ip: string): Promise<IssuedKey> {
      const done = await limits.workload(ip);
      const rule = await store.find(id);
      if (!rule || !claimsToFit(rule, token)) throw workloadRefused();
      const payload = await verified(rule, token);
      const { exp = 0, iat = 0, sub = "" } = payload;
      if (exp - iat > maxTokenLifeS)
        throw claimRefused(`exp\` must be at most ${maxTokenLifeS / 3600} hours after \`iat`);
      if (!matchesSubject(rule.subject, sub)) throw claimRefused("sub` does not match the rule's `subject");
      for (const [name, value] of Object.entries(rule.claims))
        if (!hasValue(payload[name], value))
          throw claimRefused(`${name}\` does not have the value of the rule's \`claims`);

      const nowMs = unixMs();
      const expiresAtMs = nowMs + rule.lifeSeconds * 1000;
      const exchange = {
        id: randomId<"exchange">(20),
        rule: id,
        // Hash of the signed part only: a signature has several spellings.
        tokenHash: createHash("sha256")
          .update(token.slice(0, token.lastIndexOf(".")))
          .digest(),
        tokenExpiresAtMs: exp * 1000 + clockToleranceS * 1000,
        expiresAtMs,
      };
      const outcome = await store.begin(exchange, workloadLimits, nowMs);
      if (outcome === "gone") throw workloadRefused();
      if (outcome === "replayed") throw workloadReplayed();
      if (outcome === "full") throw tooManyWorkloadKeys();
      const act = { ...bySystem(`workload ${sub.slice(0, 256)}`), ip };
      const rules = { ...noRules, role: rule.role, allowedModels: rule.allowedModels, expiresAtMs };
      const name = `${rule.name}-${exchange.id.slice(0, 8)}`;
      const made = await tokens.create(rule.account, name, rules, act, null, rule).catch((error) => {
        // The member for whom the keys are has left.
        throw error instanceof ServiceError && error.code === "member_not_found" ? workloadRefused(error) : error;
      });
      if (!(await store.finish(exchange.id, made.key))) {
        await tokens.revoke({ account: rule.account }, made.key, act);
        throw workloadRefused();
      }
      await done();
      return { key: made.token, id: made.key, expiresAtMs, rule };
    },
  };
}

export type WorkloadIdentities = ReturnType<typeof createWorkloadIdentities>;

/** Reads the token without trusting it, so that only tokens which claim to fit cause requests. */
function claimsToFit({ issuer, audience }: WorkloadRule, token: string): boolean {
  if (token.length > maxTokenLength || !/^[\w-]+\.[\w-]+\.[\w-]+$/.test(token)) return false;
  try {
    const { alg } = decodeProtectedHeader(token);
    const { iss, aud } = decodeJwt(token);
    return algorithms.includes(alg ?? "") && iss === issuer && [aud].flat().includes(audience);
  } catch {
    return false;
  }
}

const hasValue = (claim: unknown, value: string): boolean =>
  typeof claim === "string" || typeof claim === "number" || typeof claim === "boolean"
    ? String(claim) === value
    : false;

const badRule = (param: string, message: string) => invalid("bad_workload_identity", message, { param });
export const workloadNotFound = () =>
  notFound(
    "workload_identity_not_found",
    "Workload identity not found. `GET /v1/workload-identities` lists those of the account.",
  );
const workloadConflict = (message: string) => conflict("workload_identity_conflict", message);

/** The same for an unknown rule and for a token that its issuer did not sign for it. */
const workloadRefused = (cause?: unknown) =>
  unauthenticated(
    "workload_token_refused",
    "The token is not valid for this workload identity. Check its issuer, audience and expiry, and `workload_identity_id`.",
    { cause },
  );
/** The issuer did sign the token, so its holder may know what is missing. */
const claimRefused = (what: string) => unauthenticated("workload_token_refused", `The token's claim \`${what}\`.`);
const workloadReplayed = () =>
  unauthenticated(
    "workload_token_used",
    `This token was exchanged ${workloadLimits.perToken} times, the limit. Request a new one from your platform.`,
  );
const tooManyWorkloadKeys = () =>
  rateLimited(
    "workload_keys_full",
    `This workload identity has ${workloadLimits.live} valid keys, its limit. Wait until some expire, or shorten its \`life_seconds\`.`,
    { retryAfterSeconds: 60 },
  );
const workloadBusy = () =>
  rateLimited("workload_keys_full", "Too many tokens are being verified. Try again in a few seconds.", {
    retryAfterSeconds: 3,
  });
const issuerFailed = (issuer: string, cause: unknown) =>
  cause instanceof ServiceError && cause.kind === "unavailable"
    ? cause
    : upstreamFailed(
        "workload_issuer_failed",
        `The keys of ${issuer} cannot be read from its metadata. They must be on a public address, by HTTPS.`,
        { cause },
      );
